"""The state of a phone in tau2-bench's telecom domain, and what its figures mean."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import ConfigDict

from chimera.eval.benchmarks._tau_bench.kernel import model

Signal = Literal["none", "poor", "fair", "good", "excellent"]
Technology = Literal["none", "2G", "3G", "4G", "5G"]
Mode = Literal["4g_5g_preferred", "4g_only", "3g_only", "2g_only"]
MODES = ("4g_5g_preferred", "4g_only", "3g_only", "2g_only")
#: The technology each mode connects with when 5G is not to be had or not wanted.
FALLBACK = {"4g_5g_preferred": "4G", "4g_only": "4G", "3g_only": "3G", "2g_only": "2G"}
SIGNAL_ICONS = {
    "none": "📵 No Signal",
    "poor": "📶¹ Poor",
    "fair": "📶² Fair",
    "good": "📶³ Good",
    "excellent": "📶⁴ Excellent",
}
SPEEDS = {
    "none": (0.0, 0.0),
    "2G": (0.1, 0.4),
    "3G": (1.0, 5.0),
    "4G": (10.0, 100.0),
    "5G": (50.0, 500.0),
}
SIGNAL_FACTORS = {"none": 0.0, "poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0}
#: Upper bound of the speed, what it is called, and what the speed test says about it.
RATINGS = (
    (1.0, "Very Poor", "Connection is very slow. Basic web browsing might be difficult."),
    (5.0, "Poor", "Connection is slow. Web browsing may be sluggish, streaming difficult."),
    (25.0, "Fair", "Connection is okay for web browsing and some standard definition streaming."),
    (100.0, "Good", "Connection is good for most activities, including HD streaming."),
    (float("inf"), "Excellent", "Connection is very fast."),
)
SIM_TEXTS = {
    "active": "Your SIM card is active and working.",
    "missing": "No SIM card detected in the phone.",
    "locked_pin": "The SIM card is locked with a PIN code.",
    "locked_puk": "The SIM card is locked with a PUK code.",
}
SERVICE_STATES = ("connected", "searching", "no_service", "emergency_only")
NO_SERVICE = {
    "network_connection_status": "no_service",
    "network_technology_connected": "none",
    "network_signal_strength": "none",
}
DEFAULT_VPN = {
    "server_address": "192.168.1.1",
    "protocol": "OpenVPN",
    "server_performance": "excellent",
}


class APNNames(StrEnum):
    INTERNET = "internet"
    BROKEN = "broken"


APNSettings = model(
    "APNSettings",
    ConfigDict(extra="forbid", use_enum_values=True),
    apn_name=(APNNames, "internet"),
    reset_at_reboot=(bool, False),
    mms_apn=(str | None, "mms"),
    mmsc_url=(str | None, "http://mms.carrier.com/mms/wapenc"),
    mms_proxy=(str | None, None),
    mms_port=(int | None, None),
)
_vpn = model(
    "VpnDetails",
    server_address=(str | None, None),
    protocol=(str | None, None),
    server_performance=(Literal["unknown", "poor", "fair", "good", "excellent"], "unknown"),
)
_permissions = model(
    "AppPermissions",
    sms=(bool, False),
    storage=(bool, False),
    phone=(bool, False),
    network=(bool, False),
)
_app = model("AppStatus", app_name=str, permissions=(_permissions, _permissions()))
_APPS = {
    "messaging": {
        "app_name": "messaging",
        "permissions": {"sms": True, "storage": True, "phone": True},
    },
    "browser": {"app_name": "browser", "permissions": {"network": True, "storage": True}},
}
_device = model(
    "MockPhoneAttributes",
    sim_card_status=(Literal["active", "missing", "locked_pin", "locked_puk"], "active"),
    sim_card_missing=(bool, False),
    airplane_mode=(bool, False),
    network_signal_strength=(Signal, "good"),
    network_technology_connected=(Technology, "5G"),
    network_connection_status=(
        Literal["connected", "searching", "no_service", "emergency_only"],
        "connected",
    ),
    battery_level=(int, 80),
    data_enabled=(bool, True),
    roaming_enabled=(bool, False),
    network_mode_preference=(Mode, "4g_5g_preferred"),
    active_apn_settings=(APNSettings, APNSettings()),
    wifi_enabled=(bool, False),
    wifi_connected=(bool, False),
    wifi_ssid=(str | None, None),
    wifi_signal_strength=(Signal, "none"),
    wifi_calling_enabled=(bool, False),
    wifi_calling_mms_over_wifi=(bool, False),
    data_saver_mode=(bool, False),
    vpn_enabled_setting=(bool, False),
    vpn_connected=(bool, False),
    vpn_details=(_vpn | None, None),
    app_statuses=(dict[str, _app], {key: _app(**value) for key, value in _APPS.items()}),  # type: ignore[valid-type]
)
_payment_request = model("PaymentRequest", bill_id=str, amount_due=float, paid=(bool, False))
_surroundings = model(
    "UserSurroundings",
    name=(str | None, None),
    phone_number=(str | None, None),
    is_abroad=(bool, False),
    roaming_allowed=(bool, False),
    signal_strength=(
        dict[Technology, Signal],
        {"2G": "poor", "3G": "fair", "4G": "good", "5G": "excellent"},
    ),
    mobile_data_usage_exceeded=(bool, False),
    line_active=(bool, True),
    payment_request=(_payment_request | None, None),
)
PhoneDatabase = model(
    "TelecomUserDB", device=(_device, _device()), surroundings=(_surroundings, _surroundings())
)
