//! The header fields of a message in their order.

use std::ops::Deref;

use crate::name::NameCode;

use super::Field;

/// Header fields, and which names there may be among them: a proxy asks most messages for a dozen fields
/// that they have not got.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    list: Vec<Field>,
    /// A bit for each [name](NameCode::bit) that a field has, or has had.
    names: u64,
}

impl Fields {
    pub(super) fn with_capacity(capacity: usize) -> Fields {
        Fields {
            list: Vec::with_capacity(capacity),
            names: 0,
        }
    }

    /// A copy with room for so many more.
    pub(super) fn clone_with_room(&self, more: usize) -> Fields {
        let mut list = Vec::with_capacity(self.list.len() + more);
        list.extend_from_slice(&self.list);
        Fields {
            list,
            names: self.names,
        }
    }

    /// `false` where there is no field of this name. Of those without a variant of their own there may be
    /// another one.
    #[inline(always)]
    pub(super) fn may_have(&self, name: NameCode) -> bool {
        self.names & name.bit() != 0
    }

    /// The place of the first field of a known name.
    #[inline]
    pub(super) fn position(&self, name: NameCode) -> Option<usize> {
        if !self.may_have(name) {
            return None;
        }
        self.list.iter().position(|field| field.name == name)
    }

    /// All fields where there may be one of this name, else none.
    #[inline]
    pub(super) fn where_may_be(&self, name: NameCode) -> &[Field] {
        match self.may_have(name) {
            true => &self.list,
            false => &[],
        }
    }

    #[inline]
    pub(super) fn push(&mut self, field: Field) {
        self.names |= field.name.bit();
        self.list.push(field);
    }

    pub(super) fn insert(&mut self, at: usize, field: Field) {
        self.names |= field.name.bit();
        self.list.insert(at, field);
    }

    /// Puts a field in the place of another one of the same name.
    pub(super) fn set(&mut self, at: usize, field: Field) {
        self.names |= field.name.bit();
        self.list[at] = field;
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.list.remove(at);
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Field) -> bool) {
        self.list.retain(keep);
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.list.shrink_to_fit();
    }
}

impl Deref for Fields {
    type Target = [Field];

    #[inline(always)]
    fn deref(&self) -> &[Field] {
        &self.list
    }
}
