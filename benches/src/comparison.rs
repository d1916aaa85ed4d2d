//! Which comparisons there are.

use crate::output::Output;
use crate::rounds::Rounds;
use crate::{
    capture_tshark, engine_dcsctp, engine_sctp_proto, handshakes, kernel_tcp, load_sipp,
    m3ua_osmo_stp, multipath_usrsctp, network_box, plugin_kamailio, proxy_kamailio, proxy_overload,
    proxy_transports, sip_parse, udp_usrsctp,
};

/// A comparison.
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Rounds, &mut dyn Output) -> anyhow::Result<()>,
}

/// All of them.
pub(crate) const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "engine-dcsctp",
        about: "two engines in memory against two of dcSCTP: messages per CPU second",
        run: engine_dcsctp::run,
    },
    Comparison {
        name: "engine-sctp-proto",
        about: "two engines in memory against two of sctp-proto: messages per CPU second",
        run: engine_sctp_proto::run,
    },
    Comparison {
        name: "multipath-usrsctp",
        about: "what two paths carry together, against usrsctp with CMT, between network namespaces",
        run: multipath_usrsctp::run,
    },
    Comparison {
        name: "udp-usrsctp",
        about: "SCTP in UDP over loopback against usrsctp: goodput, CPU seconds a GByte",
        run: udp_usrsctp::run,
    },
    Comparison {
        name: "kernel-tcp",
        about: "SCTP in UDP over loopback against the kernel's TCP: goodput, CPU seconds a GByte",
        run: kernel_tcp::run,
    },
    Comparison {
        name: "handshakes",
        about: "setting up and shutting down, answering INITs, and idle associations",
        run: handshakes::run,
    },
    Comparison {
        name: "proxy-kamailio",
        about: "proxy and registrar against Kamailio: calls and registrations a second, delays, memory",
        run: proxy_kamailio::run,
    },
    Comparison {
        name: "plugin-kamailio",
        about: "what a script in Lua adds to a call, beside Kamailio's app_lua: CPU microseconds",
        run: plugin_kamailio::run,
    },
    Comparison {
        name: "proxy-overload",
        about: "our proxy on a fifth of a core: calls completed at twice its capacity, beside it",
        run: proxy_overload::run,
    },
    Comparison {
        name: "proxy-transports",
        about: "our proxy over SCTP beside TCP and UDP: calls a second, delays",
        run: proxy_transports::run,
    },
    Comparison {
        name: "load-sipp",
        about: "our load generator against SIPp: CPU time a call, calls a second, memory",
        run: load_sipp::run,
    },
    Comparison {
        name: "sip-parse",
        about: "an INVITE read, edited and written, against rsip, rsipstack and ezk-sip-types",
        run: sip_parse::run,
    },
    Comparison {
        name: "capture-tshark",
        about: "a capture of calls analysed, against tshark's SIP statistics and fields: CPU time, memory",
        run: capture_tshark::run,
    },
    Comparison {
        name: "m3ua-osmo-stp",
        about: "a signalling gateway against osmo-stp, in a virtual machine with the kernel's SCTP: messages per CPU second",
        run: m3ua_osmo_stp::run,
    },
    Comparison {
        name: "emulator",
        about: "the network in a box beside a bare copy and the kernel as router: packets, delays, rates",
        run: network_box::run,
    },
];
