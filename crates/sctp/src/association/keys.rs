//! How an association protects its packets (RFC 4895, RFC 9653), and the shared keys that its user
//! changes (RFC 6458).

use rand_chacha::ChaCha12Rng;

use super::authentication::{Authentication, Declaration, Declarations, SharedKeys};
use super::capabilities::Capabilities;
use super::cookie::Cookie;
use super::{Association, Context};
use crate::packet::{ChunkType, Protection};
use crate::{AssociationConfig, AssociationState, AuthenticationIndication, Event, KeyError};

impl Association {
    /// What it knows of authentication; `None` when it does without.
    pub(crate) fn authentication(&self) -> Option<&Authentication> {
        self.authentication.as_deref()
    }

    /// How its packets are protected.
    pub(super) fn protection(&self) -> Protection {
        Protection {
            signer: self
                .authentication()
                .and_then(Authentication::signer)
                .cloned(),
            zero_checksum: self.extensions.zero_checksum,
        }
    }

    /// Bytes that an AUTH chunk takes of a packet that is for one of these chunk types.
    pub(super) fn auth_length_for(&self, chunk_types: &[ChunkType]) -> usize {
        let Some(signer) = self.authentication().and_then(Authentication::signer) else {
            return 0;
        };
        if chunk_types
            .iter()
            .any(|chunk_type| signer.requests(*chunk_type))
        {
            signer.auth_length()
        } else {
            0
        }
    }

    /// Takes over what a cookie says of authentication.
    pub(super) fn authenticate_by(
        &mut self,
        declarations: Option<&Declarations>,
        context: &Context<'_>,
    ) {
        let keys = self.authentication.take().map_or_else(
            || context.shared_keys.clone(),
            |before| before.into_shared_keys(),
        );
        self.authentication =
            declarations.map(|declarations| Box::new(Authentication::of(declarations, keys)));
        self.auth_changed();
    }

    /// The peer's declaration has come, or cannot come any more: packets have room for what it asks
    /// for.
    pub(super) fn auth_changed(&mut self) {
        let length = self.auth_length_for(&[self.data_chunk_type()]);
        self.paths.set_auth_length(length);
    }

    /// The type of the chunks that carry user data.
    pub(super) fn data_chunk_type(&self) -> ChunkType {
        if self.extensions.interleaving {
            ChunkType::I_DATA
        } else {
            ChunkType::DATA
        }
    }

    /// What its INIT said of authentication, for an INIT ACK when both sides open at the same time
    /// (section 6.1).
    pub(crate) fn declaration(&self) -> Option<Declaration> {
        self.authentication().map(|own| own.local().clone())
    }

    /// What an INIT ACK for a peer that may have restarted says of authentication.
    pub(crate) fn new_declaration(
        &self,
        config: &AssociationConfig,
        rng: &mut ChaCha12Rng,
    ) -> Option<Declaration> {
        match self.authentication() {
            Some(own) => Some(own.local().renewed(rng)),
            None => Declaration::offered(config, rng),
        }
    }

    // --- What the user does and is told (RFC 6458 sections 6.1.8, 8.1.18 and 8.3.3 to 8.3.5) ---

    /// Changes the shared keys.
    pub(crate) fn change_keys(
        &mut self,
        change: impl FnOnce(&mut SharedKeys) -> Result<(), KeyError>,
        context: &mut Context<'_>,
    ) -> Result<(), KeyError> {
        if self.state == AssociationState::Closed {
            return Err(KeyError::UnknownAssociation);
        }
        self.authentication
            .as_mut()
            .ok_or(KeyError::NotAuthenticated)?
            .change_keys(change)?;
        self.report_keys(context);
        Ok(())
    }

    /// Deletes a shared key.
    pub(crate) fn delete_key(
        &mut self,
        key: u16,
        context: &mut Context<'_>,
    ) -> Result<(), KeyError> {
        let is_used = self.sender.uses_key(key);
        self.change_keys(|keys| keys.delete(key, || is_used), context)
    }

    /// The key for a message whose user asked for `key`.
    pub(super) fn message_key(&self, key: Option<u16>) -> Result<Option<u16>, KeyError> {
        match (self.authentication(), key) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(KeyError::NotAuthenticated),
            (Some(authentication), key) => {
                let keys = authentication.shared_keys();
                let key = key.unwrap_or(keys.active());
                if keys.is_usable(key) {
                    Ok(Some(key))
                } else {
                    Err(KeyError::UnknownKey)
                }
            }
        }
    }

    /// Tells of keys that the peer has begun to use, and of those that are not used any more.
    pub(super) fn report_keys(&mut self, context: &mut Context<'_>) {
        let Some(authentication) = &mut self.authentication else {
            return;
        };
        let id = self.id;
        let new = authentication
            .take_new_key()
            .map(|key| AuthenticationIndication::NewKey { key });
        let free = authentication
            .take_freed(|key| self.sender.uses_key(key))
            .into_iter()
            .map(|key| AuthenticationIndication::FreeKey { key });
        context.events.extend(
            new.into_iter()
                .chain(free)
                .map(|indication| Event::Authentication { id, indication }),
        );
    }

    /// The association is up: tells when it was to be authenticated and the peer cannot.
    pub(super) fn report_missing_authentication(&self, context: &mut Context<'_>) {
        let is_offered = Capabilities::offered(context.config)
            .extensions
            .authentication;
        if is_offered && !self.extensions.authentication {
            context.events.push_back(Event::Authentication {
                id: self.id,
                indication: AuthenticationIndication::NoAuthentication,
            });
        }
    }
}

impl Cookie {
    /// The authentication of an association that this cookie makes.
    pub(crate) fn authentication(&self, keys: &SharedKeys) -> Option<Authentication> {
        self.declarations
            .as_ref()
            .map(|declarations| Authentication::of(declarations, keys.clone()))
    }
}
