//! The output items of one reply, put together from their events.
//!
//! Servers disagree about what names an item: ids that change from event to event, indices that are always 0 or missing,
//! items without a start or without an end. An item's own id decides; where it says nothing, the index does, and then the
//! item that is still open. A call is never taken for another one whose call id differs.

use hames_core::provider::ProviderError;
use serde_json::Value;

use super::wire::{Item, field};
use crate::wire::malformed;

/// No reply has so many; it also bounds the search for the item of an event.
const MAX_ITEMS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
    /// Built-in tools and whatever comes next: kept, never run.
    Other,
}

impl ItemKind {
    pub(super) fn of(item: &Item) -> Self {
        match field(item, "type") {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// What an event says about the item that it belongs to.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) output_index: Option<u64>,
}

#[derive(Debug)]
pub(super) struct PartialItem {
    pub(super) kind: ItemKind,
    pub(super) id: Option<String>,
    pub(super) output_index: Option<u64>,
    pub(super) call_id: Option<String>,
    pub(super) name: String,
    /// Position among the calls of the reply.
    pub(super) call_index: u32,
    /// Visible text, reasoning or arguments that came so far.
    pub(super) said: String,
    /// Where in `said` the newest part begins.
    pub(super) part_start: usize,
    /// Arguments that stood in the start of a call, for servers that say them nowhere else.
    pub(super) first_arguments: String,
    pub(super) is_done: bool,
    /// The item as it was stated last, without what is kept elsewhere.
    pub(super) stated: Item,
    /// Where it stands in the output of the whole response.
    pub(super) position: Option<usize>,
}

impl PartialItem {
    /// The raw arguments of a call.
    pub(super) fn arguments(&self) -> &str {
        if self.said.is_empty() { &self.first_arguments } else { &self.said }
    }

    fn is_at(&self, place: Place<'_>) -> bool {
        place.output_index.is_some() && self.output_index == place.output_index
    }

    fn has_id(&self, id: Option<&str>) -> bool {
        id.is_some() && self.id.as_deref() == id
    }

    /// The ids of two calls do not say that they are different ones.
    fn may_be_call(&self, call_id: Option<&str>) -> bool {
        self.call_id.is_none() || call_id.is_none() || self.call_id.as_deref() == call_id
    }
}

#[derive(Debug, Default)]
pub(super) struct Items {
    list: Vec<PartialItem>,
}

impl Items {
    pub(super) fn as_slice(&self) -> &[PartialItem] {
        &self.list
    }

    pub(super) fn into_vec(self) -> Vec<PartialItem> {
        self.list
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut PartialItem> {
        self.list.get_mut(at)
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &PartialItem> {
        self.list.iter().filter(|item| item.kind == ItemKind::Call)
    }

    /// Everything that began has ended, and something has.
    pub(super) fn are_all_done(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(|item| item.is_done)
    }

    /// Begins an item.
    pub(super) fn begin(&mut self, kind: ItemKind, place: Place<'_>) -> Result<usize, ProviderError> {
        if self.list.len() >= MAX_ITEMS {
            return Err(malformed(format!("the reply has more than {MAX_ITEMS} items")));
        }
        self.list.push(PartialItem {
            kind,
            id: place.id.map(str::to_owned),
            output_index: place.output_index,
            call_id: None,
            name: String::new(),
            call_index: u32::try_from(self.calls().count()).unwrap_or(u32::MAX),
            said: String::new(),
            part_start: 0,
            first_arguments: String::new(),
            is_done: false,
            stated: Item::new(),
            position: None,
        });
        Ok(self.list.len() - 1)
    }

    /// The item that a piece of text or arguments continues; `None` if it is of an item that was not heard of yet.
    pub(super) fn of_piece(&self, kind: ItemKind, place: Place<'_>) -> Option<usize> {
        let newest = |test: &dyn Fn(&PartialItem) -> bool| {
            self.list.iter().rposition(|item| item.kind == kind && test(item))
        };
        newest(&|item| item.has_id(place.id))
            .or_else(|| newest(&|item| !item.is_done && item.is_at(place)))
            .or_else(|| match (place.id, place.output_index) {
                (None, None) => newest(&|item| !item.is_done),
                (Some(_), None) => newest(&|item| !item.is_done && item.id.is_none()),
                (None, Some(_)) => newest(&|item| !item.is_done && item.output_index.is_none()),
                (Some(_), Some(_)) => None,
            })
    }

    /// The item that a start or an end is about; `None` if it is a new one.
    pub(super) fn of_item(&self, item: &Item, place: Place<'_>, is_end: bool) -> Option<usize> {
        let (kind, call_id) = (ItemKind::of(item), call_id(item));
        let newest = |test: &dyn Fn(&PartialItem) -> bool| {
            self.list.iter().rposition(|known| known.kind == kind && test(known))
        };
        let same_call = |known: &PartialItem| {
            let is_elsewhere =
                known.output_index.is_some() && place.output_index.is_some() && !known.is_at(place);
            call_id.is_some() && known.call_id.as_deref() == call_id && !is_elsewhere
        };
        let open = |known: &PartialItem| !known.is_done && known.may_be_call(call_id);
        let found = newest(&|known| known.has_id(place.id))
            .or_else(|| newest(&same_call))
            .or_else(|| newest(&|known| open(known) && known.is_at(place)));
        if found.is_some() || !is_end || (place.id.is_some() && place.output_index.is_some()) {
            return found;
        }
        // An end that does not say whose it is ends what is open.
        newest(&|known| open(known) && (known.id.is_none() || place.id.is_none()))
    }

    /// The items of a whole output: for each the known one, or `None` for a new one. No known item is taken twice, so
    /// nothing that came in events is there again.
    pub(super) fn of_output(&self, output: &[Item]) -> Vec<Option<usize>> {
        let mut taken = vec![false; self.list.len()];
        let mut homes: Vec<Option<usize>> = vec![None; output.len()];
        let by_name = |item: &Item, known: &PartialItem| {
            known.has_id(item_id(item))
                || (call_id(item).is_some() && known.call_id.as_deref() == call_id(item))
        };
        // First what is known by name, then the rest in order.
        for is_named in [true, false] {
            for (home, item) in homes.iter_mut().zip(output).filter(|(home, _)| home.is_none()) {
                let kind = ItemKind::of(item);
                let free = self.list.iter().zip(&taken).position(|(known, is_taken)| {
                    !is_taken && known.kind == kind && (!is_named || by_name(item, known))
                });
                if let Some(slot) = free.and_then(|free| taken.get_mut(free)) {
                    *slot = true;
                    *home = free;
                }
            }
        }
        homes
    }
}

pub(super) fn item_id(item: &Item) -> Option<&str> {
    item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty())
}

pub(super) fn call_id(item: &Item) -> Option<&str> {
    item.get("call_id").and_then(Value::as_str).filter(|id| !id.is_empty())
}
