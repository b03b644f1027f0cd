use poste_config::{AgentConfig, AnswerBy, BudgetTime, ConfigFile, Mode, Preset, commands, micros, read_local};
use poste_core::text::Name;

use super::problems;

fn agent(text: &str) -> AgentConfig {
    let (file, problems) = ConfigFile::check(text);
    assert_eq!(problems, []);
    file.agents.into_values().next().expect("an agent")
}

fn wrong(lines: &str) -> String {
    let text = format!("[agent.coder]\n{lines}");
    problems(&text).join("\n")
}

#[test]
fn an_agent_is_read_whole() {
    let coder = agent(
        "[agent.coder]\npreset = \"claude-code\"\nrun = [\"claude\", \"-p\", \"--resume={conversation}\"]\ninput = \"stdin\"\n\
         answer = \"file\"\nmode = \"subagent\"\nbatch = 5\nconcurrency = 1\ntime_limit = \"20m\"\ngrace = \"3s\"\nworktree = true\n\
         environment = [\"ANTHROPIC_*\"]\nretries = 2\nbackoff = \"10s\"\nquiet = \"22:00-07:00\"\nschedule = \"*/30 * * * *\"\n\
         budget = { runs = 20, minutes = 90, cost = 2.5, per = \"hour\" }\nmax_hops = 4\nstarts_per_minute = 9\nresume = true\n\
         role = \"builder\"\nprompt = \"You write code.\"\n",
    );
    assert_eq!((coder.preset, coder.mode, coder.answer), (Preset::ClaudeCode, Mode::Subagent, Some(AnswerBy::File)));
    assert_eq!((coder.batch, coder.concurrency, coder.retries), (5, 1, Some(2)));
    assert_eq!((coder.time_limit_ms, coder.grace_ms, coder.backoff_ms), (1_200_000, 3_000, Some(10_000)));
    let budget = coder.budget.expect("a budget");
    assert_eq!((budget.cost_micros, budget.minutes, budget.per), (Some(2_500_000), Some(90), BudgetTime::Hour));
    assert!(coder.resume && coder.worktree && !coder.trusted);
    assert_eq!((coder.max_hops, coder.starts_per_minute), (4, 9));
}

#[test]
fn what_is_left_out_is_what_most_want() {
    let coder = agent("[agent.coder]\nrun = [\"./agent.sh\"]\n");
    assert_eq!((coder.preset, coder.mode, coder.batch, coder.concurrency), (Preset::Command, Mode::Session, 1, 1));
    assert!(coder.budget.is_none() && coder.environment.is_empty());
}

#[test]
fn every_mistake_is_named_with_its_line() {
    for (lines, expected) in [
        ("", "line 1: agent.coder: it has neither run nor preset"),
        ("preset = \"claude\"\n", "line 2: agent.coder.preset: must be"),
        ("run = \"claude\"\n", "must be a list of words"),
        ("run = [\"a\", \"{promt_file}\"]\n", "did you mean {prompt_file}?"),
        (
            "run = [\"a\"]\nconcurency = 2\n",
            "line 3: [agent.coder]: unknown key \"concurency\"; did you mean concurrency?",
        ),
        ("run = [\"a\"]\nconcurrency = 0\n", "agent.coder.concurrency: must be a number from 1"),
        ("run = [\"a\"]\nquiet = \"22-7\"\n", "two times of day"),
        ("run = [\"a\"]\nquiet = \"07:00-07:00\"\n", "the two times are the same"),
        ("run = [\"a\"]\nschedule = \"often\"\n", "must be a schedule"),
        ("run = [\"a\"]\nschedule = \"* * * * * *\"\n", "must be a schedule"),
        ("run = [\"a\"]\nbudget = 3\n", "must be a table"),
        ("run = [\"a\"]\nbudget = { per = \"day\" }\n", "set at least one of runs, minutes and cost"),
        ("run = [\"a\"]\nbudget = { cost = -1 }\n", "an amount in dollars"),
        ("run = [\"a\"]\nbudget = { run = 1 }\n", "did you mean runs?"),
        ("run = [\"a\"]\nenvironment = [\"KEY=secret\"]\n", "is not a variable name"),
        ("run = [\"a\"]\nworktree = true\nfolder = \"x\"\n", "use only one"),
        ("run = [\"a\"]\nmode = \"resident\"\nbatch = 2\n", "remove batch"),
        ("run = [\"a\"]\nworktree = true\nconcurrency = 2\n", "would share one worktree"),
        ("run = [\"a\"]\nmode = \"subagent\"\nanswer = \"poste\"\n", "cannot end the message itself"),
        ("run = [\"a\"]\nenvironment = [\"*\"]\n", "is not a variable name"),
        ("run = [\"a\"]\nfolder = \"../other\"\n", "outside of the project"),
        ("run = [\"a\"]\nfolder = \"/etc\"\n", "outside of the project"),
    ] {
        let found = wrong(lines);
        assert!(found.contains(expected), "{lines:?}: {found}");
    }
    assert!(ConfigFile::check("[agent.UPPER]\nrun = [\"a\"]\n").1[0].message.starts_with("agent: "));
    assert!(ConfigFile::check("agent = 3\n").1[0].message.contains("write [agent.NAME]"));
    assert!(ConfigFile::check("[agents.coder]\n").1[0].message.contains("did you mean agent?"));
}

#[test]
fn what_comes_with_a_repository_is_to_be_trusted() {
    let (file, _) = ConfigFile::check("[agent.a]\nrun = [\"x\", \"y z\"]\n[agent.b]\npreset = \"codex\"\n");
    let listed: Vec<(String, String)> = commands(&file).into_iter().map(|found| (found.key, found.command)).collect();
    let expected = [("agent.a", "x 'y z'"), ("agent.b", "codex (preset)")];
    assert_eq!(listed, expected.map(|(key, command)| (key.to_owned(), command.to_owned())));
    let (local, problems) = read_local("[agent.a]\nrun = [\"x\"]\n");
    assert_eq!(problems, []);
    assert!(local.agents.values().all(|agent| !agent.trusted));
}

#[test]
fn the_files_of_this_machine_may_name_any_folder() {
    let (local, problems) = read_local("[agent.a]\nrun = [\"x\"]\nfolder = \"../other\"\n");
    assert_eq!(problems, []);
    assert_eq!(local.agents.values().next().and_then(|agent| agent.folder.as_deref()), Some("../other"));
}

#[test]
fn an_amount_is_read_to_the_millionth() {
    for (text, expected) in [
        ("2.5", Some(2_500_000)),
        ("1_000", Some(1_000_000_000)),
        ("+0.1", Some(100_000)),
        ("0.0123", Some(12_300)),
        ("1.2e-3", Some(1_200)),
        ("5e-7", Some(1)),
        ("4e-7", Some(0)),
        ("0.0000015", Some(2)),
        ("1.5E3", Some(1_500_000_000)),
        ("0", Some(0)),
        ("0e999", Some(0)),
        ("1e300", None),
        ("1e2000000000", None),
        ("-1", None),
        ("inf", None),
        ("nan", None),
        ("", None),
        (".", None),
        ("1.2.3", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(micros(text), expected, "{text}");
    }
}

#[test]
fn quiet_hours_go_over_midnight() {
    let quiet =
        |hours: &str| agent(&format!("[agent.a]\nrun = ['x']\nquiet = '{hours}'\n")).quiet.expect("quiet hours");
    let night = quiet("22:00-07:00");
    assert!(night.holds_at(23 * 60) && night.holds_at(0) && night.holds_at(7 * 60 - 1));
    assert!(!night.holds_at(7 * 60) && !night.holds_at(22 * 60 - 1));
    let noon = quiet("12:00-13:30");
    assert!(noon.holds_at(12 * 60) && !noon.holds_at(13 * 60 + 30) && !noon.holds_at(0));
}

#[test]
fn a_team_is_a_lead_and_members() {
    let text = "[team]\nlead = \"boss\"\nmembers = [\"coder\", \"tester\"]\nstuck_after = \"5m\"\n";
    let (file, problems) = ConfigFile::check(text);
    assert_eq!(problems, []);
    assert_eq!(file.team.stuck_after_ms, Some(300_000));
    assert_eq!(ConfigFile::check("[team]\nmembers = []\n").1, []);
    assert!(ConfigFile::check("[team]\nstuck_after = 3\n").1[0].message.starts_with("team.stuck_after: "));
    assert_eq!((file.team.lead.as_ref().map(Name::as_str), file.team.members.len()), (Some("boss"), 2));
    assert!(ConfigFile::check("[team]\nmember = []\n").1[0].message.contains("did you mean members?"));
}
