"""What tasks of tau2-bench's telecom domain do to a phone beforehand and assert of it after."""

from __future__ import annotations

from chimera.eval.benchmarks._tau_bench.phone import Phone, on_or_off
from chimera.eval.benchmarks._tau_bench.phone_state import SERVICE_STATES


class TelecomUserTools(Phone):
    """The customer's tools, with the functions that tasks name."""

    def turn_airplane_mode_on(self) -> str:
        self._set_airplane_mode(True)
        return "Airplane Mode is now ON."

    def turn_airplane_mode_off(self) -> str:
        # Officially by toggling: where it was off it goes on first, which drops every connection.
        self._set_airplane_mode(not self._device["airplane_mode"])
        self._set_airplane_mode(False)
        return "Airplane Mode is now OFF."

    def unseat_sim_card(self) -> str:
        self._device["sim_card_missing"] = True
        self.simulate_network_search()
        return "SIM card un-seated successfully."

    def lock_sim_card(self, mode: str) -> str:
        if mode in ("pin", "puk"):
            self._device["sim_card_status"] = f"locked_{mode}"
        self.simulate_network_search()
        return f"SIM card locked successfully in {mode} mode."

    def turn_data_on(self) -> str:
        self._device["data_enabled"] = True
        return "Data connection restored."

    def turn_data_off(self) -> str:
        self._device["data_enabled"] = False
        self.simulate_network_search()
        return "Data connection broken."

    def turn_roaming_on(self) -> str:
        self._device["roaming_enabled"] = True
        self.simulate_network_search()
        return "Data Roaming is now ON."

    def turn_roaming_off(self) -> str:
        self._device["roaming_enabled"] = False
        self.simulate_network_search()
        return "Data Roaming is now OFF."

    def turn_data_saver_mode_on(self) -> str:
        self._device["data_saver_mode"] = True
        return "Data Saver Mode is now ON."

    def turn_data_saver_mode_off(self) -> str:
        self._device["data_saver_mode"] = False
        return "Data Saver Mode is now OFF."

    def break_apn_settings(self) -> str:
        self._device["active_apn_settings"]["apn_name"] = "broken"
        self.simulate_network_search()
        return "APN settings broken. Please call reset_apn_settings() to fix."

    def break_apn_mms_setting(self) -> str:
        self._device["active_apn_settings"]["mmsc_url"] = None
        return "APN MMS setting broken. Please call reset_apn_settings() to fix."

    def set_wifi_calling(self, enabled: bool, mms_over_wifi: bool | None = None) -> str:
        self._device["wifi_calling_enabled"] = enabled
        text = f"Wi-Fi Calling is now {on_or_off(enabled)}."
        if mms_over_wifi is not None:
            self._device["wifi_calling_mms_over_wifi"] = mms_over_wifi
            text += f"\nMMS over Wi-Fi is now {on_or_off(mms_over_wifi)}."
        return text

    def break_vpn(self) -> str:
        self.connect_vpn()
        self._device["vpn_details"]["server_performance"] = "poor"
        return "VPN connection broken."

    def remove_app_permission(self, app_name: str, permission: str) -> tuple[bool, str]:
        permissions, permission = self._permissions(app_name), permission.lower()
        if permissions is None:
            return False, f"App '{app_name}' not found. Cannot remove permission."
        if permission not in permissions:
            return False, f"Permission '{permission}' not tracked for app '{app_name}'."
        permissions[permission] = False
        return True, f"Permission '{permission}' removed from app '{app_name}'."

    def set_user_info(self, name: str, phone_number: str) -> None:
        self._surroundings.update(name=name, phone_number=phone_number)

    def set_user_location(self, abroad: bool) -> None:
        self._surroundings["is_abroad"] = abroad

    def assert_airplane_mode_status(self, expected_status: bool) -> bool:
        return bool(self._device["airplane_mode"] == expected_status)

    def assert_service_status(self, expected_status: str) -> bool:
        if expected_status not in SERVICE_STATES:
            raise ValueError(f"'{expected_status}' is not a valid NetworkStatus")
        return bool(self._device["network_connection_status"] == expected_status)

    def assert_mobile_data_status(self, expected_status: bool) -> bool:
        return self._data_works() == expected_status

    def assert_mobile_roaming_status(self, expected_status: bool) -> bool:
        return bool(self._device["roaming_enabled"] == expected_status)

    def assert_mobile_data_saver_mode_status(self, expected_status: bool) -> bool:
        return bool(self._device["data_saver_mode"] == expected_status)

    def assert_internet_speed(
        self, expected_speed: float, expected_desc: str | None = None
    ) -> bool:
        speed, rating, _ = self._speed()
        fast = (speed or 0.0) >= expected_speed
        return fast and (expected_desc is None or rating.lower() == expected_desc.lower())

    def assert_internet_not_excellent(self) -> bool:
        return self._speed()[1] != "Excellent"

    def assert_can_send_mms(self, expected_status: bool) -> bool:
        return self._can_send_mms() == expected_status

    def assert_mobile_data_usage_exceeded(self, expected_status: bool) -> bool:
        return bool(self._surroundings["mobile_data_usage_exceeded"] == expected_status)
