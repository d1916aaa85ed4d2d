//! Calls that are made and answered.

use std::time::Instant;

use bytes::Bytes;
use ua::{AccountId, CallNumber, Description, FirstHop};

use super::commands::check_uri;
use super::{PhoneCall, Running};
use crate::event::PhoneEvent;
use crate::negotiation::{LocalMedia, answer, offer};
use crate::routes::{address_of_offer, address_towards, host_of, is_encrypted};

/// Why a call is neither made nor answered.
const NO_KEYS: &str = "the keys of SRTP must not be sent over this signalling";

impl Running {
    pub(super) fn dial(
        &mut self,
        now: Instant,
        account: AccountId,
        to: String,
    ) -> Result<(), &'static str> {
        check_uri(&to)?;
        let (call, offer) = self.open_call(account, &to)?;
        let number = self.ua.dial(now, account, &to, offer);
        self.calls.insert(number, call);
        self.emit(PhoneEvent::Dialing { call: number.0, to });
        Ok(())
    }

    /// Answers a call that came.
    pub(super) fn answer(&mut self, now: Instant, number: CallNumber) -> Result<(), &'static str> {
        const NO_CALL: &str = "there is no such call, or it is answered already";
        let call = self.calls.get(&number).ok_or(NO_CALL)?;
        let (offered, is_encrypted) = (call.offered.clone(), call.is_encrypted);
        // Keys of ours are offered in the answer to a call that had no offer.
        if offered.is_empty() && self.config.media.cannot_offer_keys(is_encrypted) {
            let _ = self.ua.refuse(now, number, 488, "Not Acceptable Here");
            return Err(NO_KEYS);
        }
        let recording = self.config.recording.clone();
        let towards = address_of_offer(&offered).map_or_else(String::new, |ip| ip.to_string());
        let address = address_towards(self.ways.address_of(&towards));
        let opened = self.open_sound(address, is_encrypted);
        let (sound, mut local) = opened.inspect_err(|_| {
            let _ = self.ua.refuse(now, number, 500, "Server Internal Error");
        })?;
        let (description, negotiated) = if offered.is_empty() {
            (offer(&mut local), None)
        } else {
            match answer(&mut local, &offered) {
                Ok((description, negotiated)) => (description, Some(negotiated)),
                Err(_) => {
                    // It is for the next call.
                    self.config.recording = recording;
                    let _ = self.ua.refuse(now, number, 488, "Not Acceptable Here");
                    return Err("there is nothing in its offer that we could use");
                }
            }
        };
        let description = self.described(&local, description, is_encrypted);
        self.ua
            .answer(now, number, description)
            .map_err(|_| NO_CALL)?;
        let call = self.calls.get_mut(&number).ok_or(NO_CALL)?;
        call.towards = towards;
        call.sound = Some(sound);
        call.local = Some(local);
        if let Some(negotiated) = negotiated {
            self.begin(number, negotiated);
        }
        Ok(())
    }

    /// Calls whom the other side of a call has asked us to call.
    pub(super) fn accept_transfer(
        &mut self,
        now: Instant,
        number: CallNumber,
    ) -> Result<(), &'static str> {
        const NO_TRANSFER: &str = "no transfer was asked for";
        let call = self.calls.get(&number).ok_or(NO_TRANSFER)?;
        let (account, target) = (call.account, call.transfer_target.clone());
        let opened = self.open_call(account, &target.ok_or(NO_TRANSFER)?);
        let (call, offer) = opened.inspect_err(|_| {
            let _ = self.ua.refuse_transfer(now, number);
        })?;
        let new = self.ua.accept_transfer(now, number, offer);
        self.calls.insert(new.map_err(|_| NO_TRANSFER)?, call);
        Ok(())
    }

    /// A call of ours with its sound, and the offer that it begins with.
    fn open_call(
        &mut self,
        account: AccountId,
        to: &str,
    ) -> Result<(PhoneCall, Description), &'static str> {
        // It goes to any of them, as one after the other fails.
        let hops = self.ua.first_hops(account, to);
        let transport = self.config.transport;
        let is_encrypted = hops.iter().all(|hop| match hop {
            FirstHop::Uri(uri) => is_encrypted(uri, transport),
            FirstHop::Flow { transport, .. } => transport.is_secure(),
        });
        if self.config.media.cannot_offer_keys(is_encrypted) {
            return Err(NO_KEYS);
        }
        let towards = match hops.first() {
            Some(FirstHop::Uri(uri)) => host_of(uri),
            Some(FirstHop::Flow { remote, .. }) => remote.ip().to_string(),
            None => host_of(to),
        };
        let address = address_towards(self.ways.address_of(&towards));
        let (sound, mut local) = self.open_sound(address, is_encrypted)?;
        let description = offer(&mut local);
        let description = self.described(&local, description, is_encrypted);
        let mut call = PhoneCall::new(account, is_encrypted);
        call.towards = towards;
        call.sound = Some(sound);
        call.local = Some(local);
        Ok((call, description))
    }

    /// A description of ours. Keys that were not meant to be seen on the way stay off ways on which they are.
    pub(super) fn described(
        &self,
        local: &LocalMedia,
        description: Bytes,
        is_encrypted: bool,
    ) -> Description {
        match local.has_keys() && is_encrypted && !self.config.media.sdes_in_clear {
            true => Description::secret(description),
            false => Description::from(description),
        }
    }
}
