"""The customer's side of tau2-bench's telecom domain: a phone and where its owner is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from chimera.eval.benchmarks._tau_bench.kernel import Record, Toolkit, attribute, checked, tool
from chimera.eval.benchmarks._tau_bench.phone_state import (
    DEFAULT_VPN,
    FALLBACK,
    MODES,
    NO_SERVICE,
    RATINGS,
    SIGNAL_FACTORS,
    SIGNAL_ICONS,
    SIM_TEXTS,
    SPEEDS,
    APNSettings,
    PhoneDatabase,
)


def on_or_off(value: bool) -> str:
    return "ON" if value else "OFF"


def _yes(value: bool) -> str:
    return "Yes" if value else "No"


class Phone(Toolkit):
    """What its owner can see and do."""

    official = "TelecomUserTools"
    database = PhoneDatabase
    arguments: ClassVar[Mapping[str, str]] = {
        "mode": "One of 4g_5g_preferred, 4g_only, 3g_only, 2g_only.",
        "app_name": "Name of the app, e.g. 'messaging'.",
        "permission": "The permission in lower case, e.g. 'storage'.",
        "apn_settings": "The settings by their names.",
    }

    @property
    def _device(self) -> Any:
        return self.db["device"]

    @property
    def _surroundings(self) -> Any:
        return self.db["surroundings"]

    # What the phone shows

    def _status_bar(self) -> str:
        device = self._device
        icons = []
        if device["airplane_mode"]:
            icons.append("✈️ Airplane Mode")
        else:
            technology = device["network_technology_connected"]
            icons.append(SIGNAL_ICONS[device["network_signal_strength"]])
            if technology != "none":
                icons.append(technology)
            if device["data_enabled"] and technology != "none":
                icons.append("📱 Data Enabled")
                if device["data_saver_mode"]:
                    icons.append("🔽 Data Saver")
            else:
                icons.append("📵 Data Disabled")
        if device["wifi_enabled"] and device["wifi_connected"]:
            ssid = device["wifi_ssid"]
            icons.append(f"📡 Connected to {ssid}" if ssid else "📡 Enabled")
        if device["vpn_connected"]:
            icons.append("🔒 VPN Connected")
        icons.append(f"🔋 {device['battery_level']}%")
        return "Status Bar: " + " | ".join(icons)

    def _with_status_bar(self, text: str) -> str:
        return f"{text}\n{self._status_bar()}"

    @tool("read")
    def check_status_bar(self) -> str:
        """Look at the icons at the top of your phone: signal, mobile data, Wi-Fi, battery."""
        return self._status_bar()

    @tool("read")
    def check_network_status(self) -> str:
        """See how your phone is connected: airplane mode, SIM, signal, network type, mobile data,
        roaming, Wi-Fi."""
        device = self._device
        lines = [
            f"Airplane Mode: {on_or_off(device['airplane_mode'])}",
            f"SIM Card Status: {self._sim()}",
            f"Cellular Connection: {device['network_connection_status']}",
            f"Cellular Signal: {device['network_signal_strength']}",
            f"Cellular Network Type: {device['network_technology_connected']}",
            f"Mobile Data Enabled: {_yes(device['data_enabled'])}",
            f"Data Roaming Enabled: {_yes(device['roaming_enabled'])}",
            f"Wi-Fi Radio: {on_or_off(device['wifi_enabled'])}",
            f"Wi-Fi Connected: {_yes(device['wifi_connected'])}",
        ]
        if device["wifi_connected"]:
            lines.append(f"Connected Wi-Fi Network: {device['wifi_ssid']}")
        return "\n".join(lines)

    # Network

    def simulate_network_search(self) -> None:
        """Settle what the phone is connected to after anything that matters has changed."""
        device = self._device
        if self._sim() == "active" and not device["airplane_mode"]:
            self._connect()
        else:
            device.update(NO_SERVICE)
        if self._apn("apn_name") == "broken" or not self._surroundings["line_active"]:
            device.update(NO_SERVICE)

    def _connect(self) -> None:
        device = self._device
        signals, mode = self._surroundings["signal_strength"], device["network_mode_preference"]
        technology = FALLBACK.get(mode, "4G")
        if mode == "4g_5g_preferred" and signals.get("5G", "none") != "none":
            technology = "5G"
        device["network_connection_status"] = "connected"
        device["network_technology_connected"] = technology
        device["network_signal_strength"] = signals.get(technology, "none")

    @tool("read")
    def check_network_mode_preference(self) -> str:
        """See which type of network your phone prefers."""
        return f"Network Mode Preference: {self._device['network_mode_preference']}"

    @tool("write")
    def set_network_mode_preference(self, mode: str) -> str:
        """Choose the type of network your phone prefers; faster ones may use more battery."""
        if mode not in MODES:
            return self._with_status_bar(
                f"Failed to set network mode: '{mode}' is not a valid option. "
                f"Please use one of: {', '.join(MODES)}"
            )
        self._device["network_mode_preference"] = mode
        self.simulate_network_search()
        return self._with_status_bar(f"Preferred Network Mode set to: {mode}")

    def _data_works(self) -> bool:
        device, around = self._device, self._surroundings
        if device["airplane_mode"] or device["network_signal_strength"] == "none":
            return False
        if device["network_connection_status"] == "no_service":
            return False
        roams = device["roaming_enabled"] and around["roaming_allowed"]
        if around["is_abroad"] and not roams:
            return False
        return bool(device["data_enabled"] and not around["mobile_data_usage_exceeded"])

    def _speed(self) -> tuple[float | None, str, str]:
        """Speed in Mbps (None without a connection), its rating and the advice for it."""
        if not self._data_works():
            return None, "No Connection", ""
        device = self._device
        factor = 1.0
        vpn = device["vpn_details"]
        if device["vpn_connected"] and vpn and vpn["server_performance"] == "poor":
            factor = 0.1
        if device["data_saver_mode"]:
            factor *= 0.2
        slowest, fastest = SPEEDS[device["network_technology_connected"]]
        signal = SIGNAL_FACTORS[device["network_signal_strength"]]
        speed = round((slowest + fastest) / 2.0 * signal * factor, 2)
        rating, advice = next((name, text) for bound, name, text in RATINGS if speed < bound)
        return speed, rating, advice

    @tool("read")
    def run_speed_test(self) -> str:
        """Measure the speed of your internet connection."""
        speed, rating, advice = self._speed()
        if speed is None:
            return f"Speed test failed: {rating}."
        return f"Speed Test Result: {speed:.2f} Mbps ({rating}). {advice}"

    # Airplane mode

    def _set_airplane_mode(self, on: bool) -> None:
        device = self._device
        device["airplane_mode"] = on
        if on or device["wifi_enabled"]:
            self._drop_wifi()
        if on:
            self._drop_vpn()
        self.simulate_network_search()

    @tool("write")
    def toggle_airplane_mode(self) -> str:
        """Switch airplane mode on or off; on, it cuts every wireless connection."""
        on = not self._device["airplane_mode"]
        self._set_airplane_mode(on)
        return self._with_status_bar(f"Airplane Mode is now {on_or_off(on)}.")

    # SIM card

    def _sim(self) -> str:
        status: str = self._device["sim_card_status"]
        return "missing" if self._device["sim_card_missing"] else status

    @tool("read")
    def check_sim_status(self) -> str:
        """See whether your SIM card works, is missing or is locked."""
        return SIM_TEXTS[self._sim()]

    @tool("write")
    def reseat_sim_card(self) -> str:
        """Take your SIM card out and put it back."""
        self._device["sim_card_missing"] = False
        self.simulate_network_search()
        return self._with_status_bar("SIM card re-seated successfully.")

    # Mobile data, roaming, data saver

    def _toggle(self, switch: str, name: str, *, then_search: bool = False) -> str:
        self._device[switch] = on = not self._device[switch]
        if then_search:
            self.simulate_network_search()
        return self._with_status_bar(f"{name} is now {on_or_off(on)}.")

    @tool("write")
    def toggle_data(self) -> str:
        """Switch mobile data on or off."""
        return self._toggle("data_enabled", "Mobile Data", then_search=True)

    @tool("write")
    def toggle_roaming(self) -> str:
        """Switch data roaming on or off, which lets your phone use foreign networks."""
        return self._toggle("roaming_enabled", "Data Roaming", then_search=True)

    @tool("read")
    def check_data_restriction_status(self) -> str:
        """See whether Data Saver limits your data."""
        if self._device["data_saver_mode"]:
            return "Data Saver mode is ON (limits data usage)."
        return "Data Saver mode is OFF."

    @tool("write")
    def toggle_data_saver_mode(self) -> str:
        """Switch Data Saver on or off; on, it uses less data and may slow it down."""
        return self._toggle("data_saver_mode", "Data Saver Mode")

    # APN

    @tool("read")
    def check_apn_settings(self) -> str:
        """See the technical settings (APN name, MMSC URL) for your carrier's mobile data."""
        if not isinstance(settings := self._device["active_apn_settings"], dict):
            attribute(settings, "model_copy")
        return (
            f"Current APN Name: {self._apn('apn_name') or 'Not Set'}\n"
            f"MMSC URL (for picture messages): {self._apn('mmsc_url') or 'Not Set'}\n"
            "(These are technical settings, usually best left unchanged.)"
        )

    @tool("write")
    def set_apn_settings(self, apn_settings: dict[str, Any]) -> str:
        """Set the APN settings of your phone."""
        # Officially whatever is no dict is stored as it is, and breaks the phone from then on.
        settings = apn_settings
        if isinstance(apn_settings, dict):
            settings = dict(checked(APNSettings, apn_settings))
        self._device["active_apn_settings"] = settings
        done = f"APN settings set to: {self._apn('apn_name')}"
        self.simulate_network_search()
        return self._with_status_bar(done)

    def _apn(self, name: str) -> Any:
        settings = self._device["active_apn_settings"]
        return attribute(Record(settings) if isinstance(settings, dict) else settings, name)

    @tool("write")
    def reset_apn_settings(self) -> str:
        """Have the APN settings go back to the default with the next restart."""
        self._apn("reset_at_reboot")
        self._device["active_apn_settings"]["reset_at_reboot"] = True
        self.simulate_network_search()
        return self._with_status_bar("APN settings will reset at reboot.")

    # Wi-Fi

    @tool("read")
    def check_wifi_status(self) -> str:
        """See whether Wi-Fi is on, to which network you are connected and how strong it is."""
        device = self._device
        if not device["wifi_enabled"]:
            return "Wi-Fi is turned OFF."
        if not device["wifi_connected"]:
            return "Wi-Fi is ON but not connected to any network."
        return (
            f"Wi-Fi is ON and connected to '{device['wifi_ssid']}'. "
            f"Signal strength: {device['wifi_signal_strength']}."
        )

    @tool("write")
    def toggle_wifi(self) -> str:
        """Switch Wi-Fi on or off."""
        if self._device["airplane_mode"]:
            return self._with_status_bar("Cannot change Wi-Fi settings while Airplane Mode is ON.")
        if self._device["wifi_enabled"]:
            self._drop_wifi()
        return self._toggle("wifi_enabled", "Wi-Fi")

    def _drop_wifi(self) -> None:
        self._device.update(wifi_connected=False, wifi_ssid=None, wifi_signal_strength="none")

    @tool("read")
    def check_wifi_calling_status(self) -> str:
        """See whether Wi-Fi Calling (calls over Wi-Fi) is on."""
        return (
            f"Wi-Fi Calling is currently turned {on_or_off(self._device['wifi_calling_enabled'])}."
        )

    @tool("write")
    def toggle_wifi_calling(self) -> str:
        """Switch Wi-Fi Calling on or off."""
        return self._toggle("wifi_calling_enabled", "Wi-Fi Calling")

    # VPN

    @tool("read")
    def check_vpn_status(self) -> str:
        """See whether you use a VPN, and its details."""
        device = self._device
        if not device["vpn_connected"]:
            if device["vpn_enabled_setting"]:
                return "VPN is turned ON in settings, but currently not connected."
            return "VPN is turned OFF."
        vpn = device["vpn_details"]
        if not vpn:
            return "VPN is ON and connected (no specific details available)."
        level = vpn["server_performance"]
        return (
            "VPN is ON and connected. Details: "
            f"{{'server_address': {vpn['server_address']!r}, 'protocol': {vpn['protocol']!r}, "
            f"'server_performance': <PerformanceLevel.{level.upper()}: {level!r}>}}"
        )

    @tool("write")
    def connect_vpn(self) -> str:
        """Connect to your VPN."""
        if self._device["vpn_connected"]:
            return "VPN already connected."
        self._device.update(vpn_connected=True, vpn_details=dict(DEFAULT_VPN))
        return self._with_status_bar("VPN connected successfully.")

    def _drop_vpn(self) -> bool:
        connected = bool(self._device["vpn_connected"])
        if connected:
            self._device.update(vpn_connected=False, vpn_details=None)
        return connected

    @tool("write")
    def disconnect_vpn(self) -> str:
        """Disconnect from your VPN."""
        if self._drop_vpn():
            return self._with_status_bar("VPN disconnected successfully.")
        return self._with_status_bar("No active VPN connection to disconnect.")

    # Apps and picture messages

    def _permissions(self, app_name: str) -> dict[str, bool] | None:
        app = self._device["app_statuses"].get(app_name)
        return app["permissions"] if app else None

    @tool("read")
    def check_installed_apps(self) -> str:
        """List the apps on your phone."""
        names = ", ".join(self._device["app_statuses"])
        return f"The following apps are installed on the phone: {names}"

    @tool("read")
    def check_app_status(self, app_name: str) -> str:
        """See the details of an app: its permissions."""
        permissions = self._permissions(app_name)
        if permissions is None:
            return f"App '{app_name}' not found on this phone."
        granted = [f"   - {name}" for name, allowed in permissions.items() if allowed]
        listed = [" - Permissions Granted:", *granted]
        return "\n".join(
            [f"Status for App: {app_name}"]
            + (listed if granted else [" - Permissions: None granted."])
        )

    @tool("read")
    def check_app_permissions(self, app_name: str) -> str:
        """See what an app is allowed to do."""
        permissions = self._permissions(app_name)
        if permissions is None:
            return f"App '{app_name}' not found on this phone."
        granted = [name for name, allowed in permissions.items() if allowed]
        if not granted:
            return f"App '{app_name}' currently has no permissions granted."
        return f"App '{app_name}' has permission for: {', '.join(granted)}."

    @tool("write")
    def grant_app_permission(self, app_name: str, permission: str) -> str:
        """Allow an app something it asks for, like storage."""
        permissions, permission = self._permissions(app_name), permission.lower()
        if permissions is None:
            text = f"Error. App '{app_name}' not found. Cannot grant permission."
        elif permission not in permissions:
            text = (
                f"Error. Permission '{permission}' not tracked for app '{app_name}', "
                f"available permissions: {list(permissions)}"
            )
        else:
            permissions[permission] = True
            text = f"Success. Permission '{permission}' granted to app '{app_name}'."
        return self._with_status_bar(text)

    def _can_send_mms(self) -> bool:
        device = self._device
        permissions = self._permissions("messaging")
        return bool(
            self._data_works()
            and device["network_technology_connected"] != "2G"
            and not (device["wifi_calling_enabled"] and device["wifi_calling_mms_over_wifi"])
            and self._apn("mmsc_url") is not None
            and permissions is not None
            and permissions["storage"]
            and permissions["sms"]
        )

    @tool("read")
    def can_send_mms(self) -> str:
        """See whether your messaging app can send picture messages."""
        able = "can" if self._can_send_mms() else "cannot"
        return f"Your messaging app {able} send MMS messages."

    # The whole device

    @tool("write")
    def reboot_device(self) -> str:
        """Restart your phone."""
        lines = ["Restarting network services..."]
        if self._apn("reset_at_reboot"):
            lines.insert(0, "Resetting APN settings...")
            self._device["active_apn_settings"] = dict(checked(APNSettings, {}))
        self.simulate_network_search()
        return self._with_status_bar("\n".join(lines))

    # Payments

    @tool("read")
    def check_payment_request(self) -> str:
        """See whether the agent has asked you to pay a bill."""
        request = self._surroundings["payment_request"]
        if request is None:
            return "No payment request has been made."
        return (
            f"You have a payment request for bill {request['bill_id']} "
            f"of {request['amount_due']} USD."
        )

    @tool("write")
    def make_payment(self) -> str:
        """Pay the bill the agent has asked you to pay."""
        request = self._surroundings["payment_request"]
        if request is None:
            return "You do not have a payment request."
        request["paid"] = True
        return (
            f"Payment of {request['amount_due']} USD has been made for bill {request['bill_id']}."
        )
