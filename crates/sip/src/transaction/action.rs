//! What the machines ask for: the words that the four of them and the layer around them share.

use std::time::Duration;

/// A timer, named as in RFC 3261 Table 4 and RFC 6026 section 8.11. No transaction starts one again
/// that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// INVITE client: retransmit the request; where a provisional response has come, give back what it takes to do so.
    A,
    /// INVITE client: no response came.
    B,
    /// INVITE client: no more retransmitted non-2xx responses are to be expected.
    D,
    /// Non-INVITE client: retransmit the request.
    E,
    /// Non-INVITE client: no final response came.
    F,
    /// INVITE server: retransmit the response.
    G,
    /// INVITE server: no ACK came.
    H,
    /// INVITE server: no more retransmitted ACKs are to be expected.
    I,
    /// Non-INVITE server: no more retransmitted requests are to be expected.
    J,
    /// Non-INVITE client: no more retransmitted responses are to be expected.
    K,
    /// INVITE server: no more retransmissions of an accepted INVITE are to be expected.
    L,
    /// INVITE client: no more 2xx responses are to be expected.
    M,
    /// Server: send a 100, unless the user has answered (RFC 3261 section 17.2.1, RFC 4320 section
    /// 4.1).
    Trying,
    /// Non-INVITE server, after Trying: the client has given up (RFC 4320 section 4.2).
    Expiry,
}

impl Timer {
    /// All, in the order of their numbers.
    pub(super) const ALL: [Timer; 14] = [
        Timer::A,
        Timer::B,
        Timer::D,
        Timer::E,
        Timer::F,
        Timer::G,
        Timer::H,
        Timer::I,
        Timer::J,
        Timer::K,
        Timer::L,
        Timer::M,
        Timer::Trying,
        Timer::Expiry,
    ];

    /// Whether it is a client transaction's; else it is a server transaction's.
    pub(super) fn is_of_clients(self) -> bool {
        match self {
            Timer::A | Timer::B | Timer::D | Timer::E | Timer::F | Timer::K | Timer::M => true,
            Timer::G
            | Timer::H
            | Timer::I
            | Timer::J
            | Timer::L
            | Timer::Trying
            | Timer::Expiry => false,
        }
    }
}

/// Something that a machine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Pass the request to the transport.
    SendRequest,
    /// Pass the request to the transport again.
    RetransmitRequest,
    /// Build the ACK to the response that came (section 17.1.1.3) and pass it to the transport.
    SendAck,
    /// Pass the ACK to the transport again.
    RetransmitAck,
    /// The request is not sent again: keep of it only the fields that its CANCEL and ACK copy.
    KeepFollowerFields,
    /// Build a 100 and pass it to the transport.
    SendTrying,
    /// Pass the user's response to the transport and keep it for retransmissions.
    SendResponse,
    /// Pass the user's 2xx to the transport: the first one or any other.
    SendAnswer,
    /// Pass the last response to the transport again.
    RetransmitResponse,
    /// Pass the message that came to the user.
    PassUp,
    /// Keep the message that came from the user.
    Absorb,
    /// Tell the user that nobody answered.
    InformTimeout,
    /// Tell the user that nobody acknowledged.
    InformAckTimeout,
    /// Tell the user that the transport could not send.
    InformFailure,
    /// Let a timer fire after a time.
    Start(Timer, Duration),
    /// Let a timer fire so long after the time at which that was due which fires now.
    Follow(Timer, Duration),
    /// Destroy the transaction.
    Terminate,
}

/// What a machine asks for at one time, in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Actions {
    list: [Option<Action>; Actions::MAXIMUM],
}

impl Actions {
    /// The most that any arc of Figures 5 to 8 asks for.
    const MAXIMUM: usize = 3;

    /// Nothing is to be done.
    pub(super) fn none() -> Actions {
        Actions::default()
    }

    /// They in their order.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = Action> + '_ {
        self.list.iter().map_while(|action| *action)
    }
}

impl<const N: usize> From<[Action; N]> for Actions {
    fn from(actions: [Action; N]) -> Actions {
        const { assert!(N <= Actions::MAXIMUM) };
        let mut list = [None; Actions::MAXIMUM];
        for (slot, action) in list.iter_mut().zip(actions) {
            *slot = Some(action);
        }
        Actions { list }
    }
}

#[cfg(test)]
impl<const N: usize> PartialEq<[Action; N]> for Actions {
    fn eq(&self, other: &[Action; N]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}
