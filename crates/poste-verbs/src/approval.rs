//! Shows an approval and its decision. A surface that waits for the decision asks again.

use poste_config::trust;
use poste_core::Office;
use poste_core::fold::{self, Code};
use poste_core::gates::Source;
use poste_core::log::MessageNo;
use poste_core::text::{TypeName, Word};
use poste_core::views::{self, ApprovalView};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::allow_default;
use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The question's number
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "approval";
    const ACCESS: Access = Access::Reads;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("wait", Touch::CommandLine)];
    type Answer = ApprovalView;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<ApprovalView>> {
        Ok(Answered::new(find(desk, self.number)?))
    }
}

/// Refuses a default that approves, unless the office's policy allows it for the type. The policy comes from a file that
/// an agent can edit, so it counts here only while a person trusts the file as it is.
pub(crate) fn check_default(office: &Office, kind: &TypeName, choices: &[Word], default: Option<&Word>) -> Result {
    let Some(default) = default.filter(|default| fold::approves(choices, default)) else { return Ok(()) };
    let is_allowed = views::allows_approving_default(office.store(), kind)?;
    if is_allowed && trust::is_trusted(office, Source::Office)? {
        return Ok(());
    }
    let message = format!("{default} approves, so it cannot be the default of a {kind}");
    let error = allow_default(Error::refused(message).code(Code::DefaultApproves.word()), kind);
    Err(if is_allowed { error.hint(note!("poste.toml allows it; review and trust it: "[trust])) } else { error })
}

/// The approval with this number, or an error that helps to find it.
pub(crate) fn find(desk: &Desk<'_>, number: MessageNo) -> Result<ApprovalView> {
    views::approval(desk.office.store(), number, desk.now()?)?.ok_or_else(|| {
        Error::not_found(format!("message {number} does not ask for approval"))
            .hint(note!("list approvals: " [approvals, all = true]))
    })
}
