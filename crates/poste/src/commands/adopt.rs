use std::io::{self, Write};

use poste_connect::person::{Doubt, no_agent_above};
use poste_verbs::{adopt, person};

use super::trust::{DECIDES, print_commands};
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// Adopt an office that was copied or came from elsewhere
///
/// An office arrives with a clone, an archive or a copy. Nothing in it is used before a person has adopted it: it could
/// hold mail of made-up people, and name programs to run. Offices that `poste init` and `poste restore` make here need
/// no adoption. On a machine where no office was ever adopted, such as a container, the office's id replaces the terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste adopt\n  poste adopt 0190a5b2-5c3e-7d41-9b2f-1f2e3d4c5b6a")]
pub(crate) struct Args {
    /// Id of the office, on a machine that has adopted none
    #[arg(value_name = "OFFICE-ID")]
    id: Option<String>,
}

impl Answer for adopt::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "office {}", escape::line(&self.path))?;
        writeln!(out, "id {}", escape::line(&self.office))?;
        for adopt::Registered { name, kind, role } in &self.agents {
            let role = role.as_ref().map(|role| format!(", role {role:?}")).unwrap_or_default();
            writeln!(out, "{kind} {:?}{}", name.as_str(), escape::line(&role))?;
        }
        for adopt::Runs { file, commands } in &self.files {
            writeln!(out, "{} would run, once it is trusted:", escape::line(file))?;
            print_commands(out, commands)?;
        }
        writeln!(out, "{}", if self.adopted { "adopted" } else { "not adopted" })
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = poste_config::look(&cx.place()?)?;
    cx.ui.now = office.now()?;
    if args.id.is_some() && !cx.is_confirmed() {
        // It takes no proof where nobody has decided anything yet, but an agent does not decide first.
        let refused = |doubt: Doubt| person::unproven(format!("only a person can adopt an office: {doubt}"));
        no_agent_above(None).map_err(refused)?;
    }
    if args.id.is_some() || cx.is_confirmed() {
        let answered = cx.call_verb(&mut office, adopt::Input { confirmed: true, id: args.id })?;
        return cx.show(&mut office, answered);
    }
    let answered = cx.call_verb(&mut office, adopt::Input::default())?;
    let adopted = answered.answer.adopted;
    cx.show(&mut office, answered)?;
    if adopted {
        return Ok(());
    }
    if cx.ui.json || !cx.has_person() {
        cx.ui.say(DECIDES);
        return Ok(());
    }
    cx.confirm("adopt this office and everyone in it", "adopt")?;
    cx.call_verb(&mut office, adopt::Input { confirmed: true, id: None })?;
    cx.ui.say("adopted");
    Ok(())
}
