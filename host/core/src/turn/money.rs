//! Money around every provider call of a turn: room is set aside before it, what it did cost is booked after it.
//!
//! Everything that asks a model goes through [`Turn::allow`] and then [`Turn::bill`] or [`Turn::give_back`]: iterations,
//! closing words, compaction, result summaries. Fails closed: no call whose price is unknown under a money limit, none that
//! may pass a limit, none that a limit per day cannot be checked for.

use super::{Stop, Turn};
use crate::clock::UtcTime;
use crate::hooks::StopPoint;
use crate::meter::{CallBytes, worst_case};
use crate::provider::{ChatReply, ModelFacts, ReplyEvent};
use crate::results::{chain, one_safe_line};
use crate::spend::{Reservation, SpendEntry, SpendError, SpendRequest};
use crate::transcript::{CallPurpose, Record};
use crate::types::{EventKind, TurnLimits, Usage};

/// Bytes of the spend book's words shown in a reason.
const MAX_BOOK_ERROR_BYTES: usize = 1000;

/// A provider call that is about to be made.
pub(super) struct PlannedCall {
    /// What it is for.
    pub(super) purpose: CallPurpose,
    /// The provider, where it is not the one that the turn began with.
    pub(super) provider: Option<String>,
    /// The model, where it is not the turn's own.
    pub(super) model: Option<String>,
    /// What is known about that model.
    pub(super) facts: ModelFacts,
    /// Everything that is sent.
    pub(super) sent_bytes: u64,
    /// Upper bound of the reply, if there is one.
    pub(super) max_output_tokens: Option<u32>,
}

/// A call that may be made, with the room that is set aside for it.
#[must_use = "bill it, or give it back"]
pub(super) struct Allowance {
    call: PlannedCall,
    reservation: Option<Reservation>,
}

/// What is known of one attempt's reply while it comes in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Usage, once the provider stated it.
    pub(super) usage: Option<Usage>,
    /// Text, reasoning and arguments.
    pub(super) received_bytes: u64,
}

impl Heard {
    /// Takes note of an event.
    pub(super) fn note(&mut self, event: &ReplyEvent) {
        match event {
            ReplyEvent::Text(text) | ReplyEvent::Reasoning(text) | ReplyEvent::Arguments { text, .. } => {
                self.received_bytes = self.received_bytes.saturating_add(size(text));
            }
            ReplyEvent::KeepAlive => {}
            ReplyEvent::Finished(reply) => *self = Self::whole(reply),
        }
    }

    fn whole(reply: &ChatReply) -> Self {
        let calls = reply.calls.iter().map(|call| size(&call.name).saturating_add(size(&call.arguments)));
        let reasoning = reply.reasoning.as_deref().map_or(0, size);
        let received_bytes = calls.fold(size(&reply.text).saturating_add(reasoning), u64::saturating_add);
        Self { usage: reply.usage, received_bytes }
    }

    /// Nothing came: such a call is not billed.
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

fn size(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// What the turn remembers about money besides its meter.
#[derive(Debug, Default)]
pub(super) struct Purse {
    /// The attempt under way.
    pub(super) heard: Heard,
    /// Size of the tools as they are sent; counted once.
    catalogue_bytes: Option<u64>,
    /// The observer was told that the spend book does not work.
    book_was_reported: bool,
}

impl Turn<'_> {
    /// Allows the turn's own next call. Where a budget says no, the stop hooks are asked first: theirs may be the better
    /// reason.
    pub(super) async fn allow_own(&mut self) -> Result<Allowance, Stop> {
        self.purse.heard = Heard::default();
        let (provider, model) = self.asked_instead().unzip();
        let call = PlannedCall {
            purpose: CallPurpose::Turn,
            provider,
            model,
            facts: self.facts(),
            sent_bytes: self.session.history.size_bytes().saturating_add(self.catalogue_bytes()),
            max_output_tokens: self.engine.max_output_tokens,
        };
        match self.allow(call) {
            Ok(allowance) => Ok(allowance),
            Err(budget) => {
                self.ask_stop_hooks(StopPoint::BeforeBreakingCall { budget: budget.clone() }).await?;
                Err(Stop::Budget(budget))
            }
        }
    }

    /// Sets aside what a call may cost at most, or says why it may not be made: with the limit, what is spent of it, and
    /// until when. A free model needs no room.
    pub(super) fn allow(&mut self, call: PlannedCall) -> Result<Allowance, String> {
        if call.facts.is_free {
            return Ok(Allowance { call, reservation: None });
        }
        let limits = &self.engine.limits;
        let Some(rate) = call.facts.rate else {
            return match money_limit(limits) {
                None => Ok(Allowance { call, reservation: None }),
                Some((key, max)) => {
                    let model = one_safe_line(call.model.as_deref().unwrap_or(&self.asked().model), 200);
                    Err(format!(
                        "what the model `{model}` costs is not known, so `limits.{key}` = {max} cannot be kept\n\
                         hint: set its prices under [models.\"{model}\"] in hames.toml, or remove the limit"
                    ))
                }
            };
        };
        let most = worst_case(&rate, call.sent_bytes, call.max_output_tokens);
        if let Some(reason) = self.meter.too_dear(most, limits, self.session.cost()) {
            return Err(reason);
        }
        let reservation = self.reserve(most)?;
        Ok(Allowance { call, reservation })
    }

    fn reserve(&mut self, microdollars: u64) -> Result<Option<Reservation>, String> {
        let cap = self.engine.limits.max_day_cost_microdollars;
        let Some(book) = &self.engine.spend else {
            return match cap {
                None => Ok(None),
                Some(cap) => Err(format!(
                    "nothing counts what the day costs, so `limits.max_day_cost_microdollars` = {cap} cannot be kept\n\
                     hint: give the engine a spend book, or remove the limit"
                )),
            };
        };
        let request = SpendRequest {
            session_id: self.session.id.clone(),
            now_ms: self.engine.clock.now_ms(),
            microdollars,
            day_cap_microdollars: cap,
        };
        match (book.reserve(&request), cap) {
            (Ok(reservation), _) => Ok(Some(reservation)),
            (
                Err(SpendError::OverDay {
                    spent_microdollars,
                    cap_microdollars,
                    asked_microdollars,
                    until_ms,
                }),
                _,
            ) => Err(format!(
                "the day cost {spent_microdollars} micro-dollars of `limits.max_day_cost_microdollars` = \
                 {cap_microdollars} and the next call may cost up to {asked_microdollars}; this holds until {} UTC\n\
                 hint: wait until then, or raise the limit",
                UtcTime::from_ms(until_ms).short()
            )),
            (Err(error @ SpendError::Book { .. }), Some(cap)) => Err(format!(
                "what the day costs cannot be counted, so `limits.max_day_cost_microdollars` = {cap} cannot be kept: {}",
                one_safe_line(&chain(&error), MAX_BOOK_ERROR_BYTES)
            )),
            (Err(error @ SpendError::Book { .. }), None) => {
                self.report_book(&error);
                Ok(None)
            }
        }
    }

    /// Books what a call used: in the transcript, in the session, in the spend book. Usage that nobody stated is estimated.
    pub(super) fn bill(&mut self, allowance: Allowance, heard: Heard, attempts: u32) -> Result<(), Stop> {
        let Allowance { call, reservation } = allowance;
        let bytes = CallBytes { sent: call.sent_bytes, received: heard.received_bytes };
        let (usage, cost) = self.meter.add(heard.usage, &call.facts, bytes);
        self.session.add_usage(usage, cost);
        let book = self.engine.spend.as_ref();
        let asked = self.asked();
        let booked = book.map_or(Ok(()), |book| {
            let entry = SpendEntry {
                time_ms: self.engine.clock.now_ms(),
                session_id: self.session.id.clone(),
                turn_id: self.voice.header.1.clone(),
                provider: call.provider.clone().unwrap_or_else(|| asked.provider.id().to_owned()),
                model: call.model.clone().unwrap_or_else(|| asked.model.clone()),
                usage,
                cost,
            };
            book.settle(reservation.as_ref(), &entry)
        });
        if let Err(error) = booked {
            // The money is spent and the reply is worth keeping. The reservation still counts, so a limit is not passed.
            self.report_book(&error);
        }
        let PlannedCall { purpose, provider, model, .. } = call;
        self.append(Record::ProviderCall { purpose, provider, model, attempts, usage, cost })?;
        self.voice.say(EventKind::CostUpdated { usage: self.meter.usage(), cost: self.meter.cost() });
        Ok(())
    }

    /// Settles an attempt that gave no whole reply: what came in is billed by estimate, as providers bill it too.
    pub(super) fn bill_broken(&mut self, allowance: Allowance, attempts: u32) -> Result<(), Stop> {
        let heard = self.purse.heard;
        if heard.is_nothing() {
            self.give_back(allowance);
            return Ok(());
        }
        self.bill(allowance, heard, attempts)
    }

    /// The call used nothing.
    pub(super) fn give_back(&mut self, allowance: Allowance) {
        let (Some(reservation), Some(book)) = (allowance.reservation, &self.engine.spend) else { return };
        if let Err(error) = book.release(&reservation) {
            self.report_book(&error);
        }
    }

    fn report_book(&mut self, error: &SpendError) {
        if std::mem::replace(&mut self.purse.book_was_reported, true) {
            return;
        }
        let message = format!("the spend book: {}", one_safe_line(&chain(error), MAX_BOOK_ERROR_BYTES));
        self.voice.say(EventKind::Warning { message });
    }

    fn catalogue_bytes(&mut self) -> u64 {
        let catalogue = self.engine.registry.catalogue();
        *self.purse.catalogue_bytes.get_or_insert_with(|| {
            let sizes = catalogue.iter().map(|spec| {
                let text = size(&spec.name).saturating_add(size(&spec.description));
                text.saturating_add(size(&spec.parameters.to_string()))
            });
            sizes.fold(0, u64::saturating_add)
        })
    }
}

/// The first money limit that is set.
fn money_limit(limits: &TurnLimits) -> Option<(&'static str, u64)> {
    [
        ("max_cost_microdollars", limits.max_cost_microdollars),
        ("max_session_cost_microdollars", limits.max_session_cost_microdollars),
        ("max_day_cost_microdollars", limits.max_day_cost_microdollars),
    ]
    .into_iter()
    .find_map(|(key, max)| Some((key, max?)))
}
