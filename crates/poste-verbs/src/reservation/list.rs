//! Lists reserved paths and their holders.

use poste_core::pattern::Touched;
use poste_core::views::{self, Reservations, ReservationsQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Touch, Verb};

pub const LIMIT_DEFAULT: u16 = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Include reservations that have ended, newest first
    pub all: bool,
    /// Only the caller's reservations
    pub mine: bool,
    /// Only reservations that cover one of these paths or anything below it; from the top of the worktree
    pub paths: Vec<String>,
    /// Maximum number of reservations
    pub limit: u16,
}

impl Default for Input {
    fn default() -> Self {
        Self { all: false, mine: false, paths: Vec::new(), limit: LIMIT_DEFAULT }
    }
}

impl Verb for Input {
    const NAME: &'static str = "reservations";
    const ACCESS: Access = Access::Reads;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("paths", Touch::Nothing)];
    type Answer = Reservations;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Reservations>> {
        let holder = if self.mine { Some(desk.agent()?.name) } else { None };
        let touching: Vec<Touched> = self.paths.iter().map(|path| Touched::folder(path.as_bytes())).collect();
        let query = ReservationsQuery { holder, touching, past: self.all, limit: self.limit.into() };
        let found = views::reservations(desk.office.store(), &query)?;
        if found.reservations.is_empty() {
            desk.say(if self.paths.is_empty() { "nothing is reserved" } else { "nothing reserved there" });
        }
        Ok(Answered::new(found))
    }
}
