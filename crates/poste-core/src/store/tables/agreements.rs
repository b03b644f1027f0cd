//! Agreements: the parties of a proposal, and which of them have agreed.

use rusqlite::{Row, params};

use super::{Concern, Tables, late};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::text::{ContextName, Label, Name, TypeName};
use crate::time::Timestamp;

/// One of the parties that a proposal needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    pub party: Address,
    /// Which agent agreed for it, if any has.
    pub agreed: Option<Agreed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    pub agent: Name,
    /// The record that agrees; for the proposer, the proposal itself.
    pub position: Position,
    pub at: Timestamp,
    /// The reply that agrees; `None` for the proposer.
    pub message: Option<MessageNo>,
}

impl TryFrom<&Row<'_>> for Party {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        let agreed = match row.get(2)? {
            None => None,
            Some(position) => Some(Agreed { agent: row.get(1)?, position, at: row.get(3)?, message: row.get(4)? }),
        };
        Ok(Self { party: row.get(0)?, agreed })
    }
}

impl Tables<'_> {
    /// The parties of a proposal, in the order they were asked; empty unless at least one has agreed.
    pub fn parties(&self, proposal: MessageNo) -> Result<Vec<Party>, Error> {
        self.all(
            "SELECT party, agent, position, at, message FROM agreements WHERE proposal = ?1 ORDER BY ordinal",
            [proposal],
        )
    }

    pub fn insert_parties(&mut self, proposal: MessageNo, parties: &[Party]) -> Result<(), Error> {
        for (ordinal, party) in parties.iter().enumerate() {
            let agreed = party.agreed.as_ref();
            self.execute(
                "INSERT INTO agreements (proposal, ordinal, party, agent, position, at, message)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    proposal,
                    ordinal,
                    party.party,
                    agreed.map(|agreed| &agreed.agent),
                    agreed.map(|agreed| agreed.position),
                    agreed.map(|agreed| agreed.at),
                    agreed.and_then(|agreed| agreed.message)
                ],
            )?;
        }
        self.concern(|| Concern::Agreement(proposal));
        Ok(())
    }

    pub fn put_agreed(&mut self, proposal: MessageNo, party: &Address, agreed: &Agreed) -> Result<(), Error> {
        self.execute(
            "UPDATE agreements SET agent = ?3, position = ?4, at = ?5, message = ?6
                 WHERE proposal = ?1 AND party = ?2",
            params![proposal, party, agreed.agent, agreed.position, agreed.at, agreed.message],
        )?;
        self.concern(|| Concern::Agreement(proposal));
        Ok(())
    }

    /// The proposal that a record agreed on, if any.
    pub fn agreed_at(&self, position: Position) -> Result<Option<MessageNo>, Error> {
        self.maybe("SELECT proposal FROM agreements WHERE position = ?1 AND message IS NOT NULL", [position])
    }

    /// The messages of a type in a conversation after another message, newest first, with their senders. A forwarded
    /// one does not count.
    pub fn newer_of_type(
        &self,
        conversation: &Label,
        kind: &TypeName,
        after: MessageNo,
    ) -> Result<Vec<(MessageNo, Name)>, Error> {
        self.needs(late::CONVERSATION)?;
        self.all(
            "SELECT number, sender FROM messages
                 WHERE conversation = ?1 AND number > ?2 AND type = ?3 AND forward_of IS NULL ORDER BY number DESC",
            params![conversation, after, kind],
        )
    }

    /// Where the outcome of an agreement was recorded: contexts and versions.
    pub fn written_down(&self, proposal: MessageNo) -> Result<Vec<(ContextName, u64)>, Error> {
        self.all(
            "SELECT c.name, v.version FROM context_versions v JOIN contexts c ON c.number = v.context
                 WHERE v.agreement = ?1 ORDER BY v.position",
            [proposal],
        )
    }
}
