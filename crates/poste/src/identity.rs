//! Who a process speaks for that an agent program started: its server of tools, its hooks.

use poste_core::office::Office;
use poste_core::store::processes;
pub(crate) use poste_verbs::session::Identity;

use crate::Result;
use crate::context::Cx;

pub(crate) fn of_process(cx: &Cx, office: &mut Office) -> Result<Identity> {
    Ok(cx.with_desk(office, |desk| Identity::of_process(desk, &processes::above()))?)
}
