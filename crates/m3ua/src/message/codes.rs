//! The numbers that RFC 4666 gives names to. Any number can be in them, since a peer may know more than we do.

use std::fmt;

/// Declares a type for numbers, its constants, and their names for display.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident {
        $($constant:ident = $value:literal, $text:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            $(
                #[doc = $text]
                pub const $constant: $name = $name($value);
            )*

            /// Its name in RFC 4666, if it has one.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $($name::$constant => Some($text),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => formatter.pad(name),
                    None => fmt::Display::fmt(&self.0, formatter),
                }
            }
        }
    };
}

codes! {
    /// Why a message was refused (section 3.8.1).
    ErrorCode {
        INVALID_VERSION = 0x01, "Invalid Version";
        UNSUPPORTED_MESSAGE_CLASS = 0x03, "Unsupported Message Class";
        UNSUPPORTED_MESSAGE_TYPE = 0x04, "Unsupported Message Type";
        UNSUPPORTED_TRAFFIC_MODE_TYPE = 0x05, "Unsupported Traffic Mode Type";
        UNEXPECTED_MESSAGE = 0x06, "Unexpected Message";
        PROTOCOL_ERROR = 0x07, "Protocol Error";
        INVALID_STREAM_IDENTIFIER = 0x09, "Invalid Stream Identifier";
        MANAGEMENT_BLOCKING = 0x0d, "Refused - Management Blocking";
        ASP_IDENTIFIER_REQUIRED = 0x0e, "ASP Identifier Required";
        INVALID_ASP_IDENTIFIER = 0x0f, "Invalid ASP Identifier";
        INVALID_PARAMETER_VALUE = 0x11, "Invalid Parameter Value";
        PARAMETER_FIELD_ERROR = 0x12, "Parameter Field Error";
        UNEXPECTED_PARAMETER = 0x13, "Unexpected Parameter";
        DESTINATION_STATUS_UNKNOWN = 0x14, "Destination Status Unknown";
        INVALID_NETWORK_APPEARANCE = 0x15, "Invalid Network Appearance";
        MISSING_PARAMETER = 0x16, "Missing Parameter";
        INVALID_ROUTING_CONTEXT = 0x19, "Invalid Routing Context";
        NO_CONFIGURED_AS = 0x1a, "No Configured AS for ASP";
    }
}

codes! {
    /// What a Notify message reports: its Status Type in the upper 16 bits, its Status Information in the lower ones
    /// (section 3.8.2).
    Status {
        AS_INACTIVE = 0x0001_0002, "AS-INACTIVE";
        AS_ACTIVE = 0x0001_0003, "AS-ACTIVE";
        AS_PENDING = 0x0001_0004, "AS-PENDING";
        INSUFFICIENT_ASP_RESOURCES = 0x0002_0001, "Insufficient ASP Resources Active in AS";
        ALTERNATE_ASP_ACTIVE = 0x0002_0002, "Alternate ASP Active";
        ASP_FAILURE = 0x0002_0003, "ASP Failure";
    }
}

codes! {
    /// How the ASPs of an AS share its traffic (section 3.7.1).
    TrafficMode {
        OVERRIDE = 1, "Override";
        LOADSHARE = 2, "Loadshare";
        BROADCAST = 3, "Broadcast";
    }
}

codes! {
    /// The result of a registration (section 3.6.2).
    RegistrationStatus {
        REGISTERED = 0, "Successfully Registered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_DPC = 2, "Error - Invalid DPC";
        INVALID_NETWORK_APPEARANCE = 3, "Error - Invalid Network Appearance";
        INVALID_ROUTING_KEY = 4, "Error - Invalid Routing Key";
        PERMISSION_DENIED = 5, "Error - Permission Denied";
        CANNOT_SUPPORT_UNIQUE_ROUTING = 6, "Error - Cannot Support Unique Routing";
        NOT_PROVISIONED = 7, "Error - Routing Key not Currently Provisioned";
        INSUFFICIENT_RESOURCES = 8, "Error - Insufficient Resources";
        UNSUPPORTED_PARAMETER = 9, "Error - Unsupported RK parameter Field";
        UNSUPPORTED_TRAFFIC_MODE = 10, "Error - Unsupported/Invalid Traffic Handling Mode";
        CHANGE_REFUSED = 11, "Error - Routing Key Change Refused";
        ALREADY_REGISTERED = 12, "Error - Routing Key Already Registered";
    }
}

codes! {
    /// The result of a deregistration (section 3.6.4).
    DeregistrationStatus {
        DEREGISTERED = 0, "Successfully Deregistered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_ROUTING_CONTEXT = 2, "Error - Invalid Routing Context";
        PERMISSION_DENIED = 3, "Error - Permission Denied";
        NOT_REGISTERED = 4, "Error - Not Registered";
        CURRENTLY_ACTIVE = 5, "Error - ASP Currently Active for Routing Context";
    }
}

codes! {
    /// Why an MTP3 user is unavailable (section 3.4.5).
    UnavailabilityCause {
        UNKNOWN = 0, "Unknown";
        UNEQUIPPED = 1, "Unequipped Remote User";
        INACCESSIBLE = 2, "Inaccessible Remote User";
    }
}

codes! {
    /// An MTP3 user, as the Service Indicator names it (section 3.4.5).
    ServiceIndicator {
        MANAGEMENT = 0, "SNM";
        TESTING = 1, "MTN";
        SCCP = 3, "SCCP";
        TUP = 4, "TUP";
        ISUP = 5, "ISUP";
        BROADBAND_ISUP = 9, "B-ISUP";
        SATELLITE_ISUP = 10, "S-ISUP";
        AAL_TYPE_2 = 12, "AAL2";
        BICC = 13, "BICC";
        GATEWAY_CONTROL = 14, "GCP";
    }
}

impl ServiceIndicator {
    /// The one with this name, whatever the case (`isup`), or number.
    pub fn named(name: &str) -> Option<ServiceIndicator> {
        if let Ok(number) = name.parse::<u8>() {
            return (number < 16).then_some(ServiceIndicator(u32::from(number)));
        }
        (0..16)
            .map(ServiceIndicator)
            .find(|known| known.name().is_some_and(|it| it.eq_ignore_ascii_case(name)))
    }
}
