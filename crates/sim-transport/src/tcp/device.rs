//! The device of a TCP: two queues of IP packets.

use bytes::Bytes;
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use std::collections::VecDeque;

/// What came in and is not looked at, and what is to go out.
#[derive(Debug)]
pub(super) struct Device {
    mtu: usize,
    pub(super) received: VecDeque<Bytes>,
    pub(super) to_send: VecDeque<Bytes>,
}

impl Device {
    pub(super) fn new(mtu: usize) -> Device {
        Device {
            mtu,
            received: VecDeque::new(),
            to_send: VecDeque::new(),
        }
    }
}

impl phy::Device for Device {
    type RxToken<'a> = ReceiveToken;
    type TxToken<'a> = TransmitToken<'a>;

    fn receive(&mut self, _: Instant) -> Option<(ReceiveToken, TransmitToken<'_>)> {
        let packet = self.received.pop_front()?;
        Some((ReceiveToken(packet), TransmitToken(&mut self.to_send)))
    }

    fn transmit(&mut self, _: Instant) -> Option<TransmitToken<'_>> {
        Some(TransmitToken(&mut self.to_send))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        // Checksums are written and checked: the network of the simulation may alter packets.
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

pub(super) struct ReceiveToken(Bytes);

impl phy::RxToken for ReceiveToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

pub(super) struct TransmitToken<'a>(&'a mut VecDeque<Bytes>);

impl phy::TxToken for TransmitToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        self.0.push_back(packet.into());
        result
    }
}
