//! The engines of others.

mod dcsctp;
mod sctp_proto;
mod usrsctp;

pub(crate) use dcsctp::Dcsctp;
pub(crate) use sctp_proto::SctpProto;
pub(crate) use usrsctp::Usrsctp;
