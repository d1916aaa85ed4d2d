//! What was said last of each of many ASs, of which the latest are kept.

use std::collections::BTreeMap;

/// ASs of which something is kept; the one of which nothing was heard for longest gives way.
const MOST: usize = 1_024;

/// A routing context; `None` where messages have none, which stands for all ASs.
pub(super) type Context = Option<u32>;

/// Values by routing context.
#[derive(Debug)]
pub(super) struct Latest<V> {
    /// With the number of the latest time that it was set.
    values: BTreeMap<Context, (u64, V)>,
    in_order: BTreeMap<u64, Context>,
    next: u64,
}

impl<V> Default for Latest<V> {
    fn default() -> Latest<V> {
        Latest {
            values: BTreeMap::new(),
            in_order: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<V> Latest<V> {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value that it had before.
    pub(super) fn set(&mut self, context: Context, value: V) -> Option<V> {
        let number = self.next;
        self.next += 1;
        let before = self.values.insert(context, (number, value));
        self.in_order.insert(number, context);
        if let Some((earlier, _)) = &before {
            self.in_order.remove(earlier);
        } else if self.values.len() > MOST
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.values.remove(&oldest);
        }
        before.map(|(_, value)| value)
    }

    /// Returns the value that it had.
    pub(super) fn remove(&mut self, context: Context) -> Option<V> {
        let (number, value) = self.values.remove(&context)?;
        self.in_order.remove(&number);
        Some(value)
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.in_order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_set_for_longest_gives_way() {
        let mut latest = Latest::default();
        let most = MOST as u32;
        for context in 0..most {
            assert_eq!(latest.set(Some(context), 1), None);
        }
        assert_eq!(latest.set(Some(0), 2), Some(1));
        assert_eq!(latest.set(None, 1), None);
        // Context 1 has given way.
        assert_eq!(latest.set(Some(0), 3), Some(2));
        assert_eq!(latest.remove(Some(1)), None);
        assert_eq!(latest.remove(Some(2)), Some(1));
        assert_eq!(latest.values.len(), MOST - 1);
        assert_eq!(latest.in_order.len(), MOST - 1);
        latest.clear();
        assert!(latest.is_empty() && latest.in_order.is_empty());
    }
}
