//! Precedence, places of errors, what a workspace may not do, the policy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use std::path::Path;

use hames_core::gate::{Action, Capabilities, FsCapability, FsMode};
use hames_core::types::Effect;

use super::*;

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("config")).unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn environment(&self, more: &[(&str, &str)]) -> Environment {
        let config = self.path("config").display().to_string();
        let home = self.dir.path().display().to_string();
        let mut vars = vec![("HAMES_CONFIG_DIR", config.as_str()), ("HOME", home.as_str())];
        vars.extend_from_slice(more);
        Environment::new(vars, self.path("work"))
    }

    fn load(&self, more: &[(&str, &str)], overrides: &Overrides) -> Result<Settings, ConfigError> {
        Settings::load(&self.environment(more), overrides)
    }

    fn error(&self) -> (String, Option<String>) {
        let error = self.load(&[], &Overrides::default()).err().unwrap();
        (error.to_string().replace(&self.dir.path().display().to_string(), "~"), error.hint())
    }
}

#[test]
fn precedence_is_flag_variable_workspace_user_default() {
    let home = Home::new();
    let model = |home: &Home, vars: &[(&str, &str)], overrides: &Overrides| {
        let model = home.load(vars, overrides).unwrap().model;
        model.map(|model| {
            (model.value, model.origin.to_string().replace(&home.path("").display().to_string(), ""))
        })
    };
    let none = Overrides::default();
    assert_eq!(model(&home, &[], &none), None);
    home.write("config/hames.toml", "model = \"user\"");
    assert_eq!(model(&home, &[], &none), Some(("user".into(), "config/hames.toml".into())));
    home.write("work/hames.toml", "model = \"workspace\"");
    assert_eq!(model(&home, &[], &none), Some(("workspace".into(), "work/hames.toml".into())));
    let vars = [("HAMES_MODEL", "variable")];
    assert_eq!(model(&home, &vars, &none), Some(("variable".into(), "HAMES_MODEL".into())));
    let flag = Overrides { model: Some("flag".into()), ..Overrides::default() };
    assert_eq!(model(&home, &vars, &flag), Some(("flag".into(), "--model".into())));
}

#[test]
fn a_wrong_plugin_limit_is_named() {
    let home = Home::new();
    home.write("config/hames.toml", "[limits.plugin]\nwall_ms = 5\nmemory_bytes = -5\n");
    assert!(home.error().0.contains("`memory_bytes`: invalid value"), "{}", home.error().0);
    home.write("config/hames.toml", "[plugins.files.limits]\nwall_ms = \"long\"\n");
    assert!(home.error().0.contains("`wall_ms`: invalid type"), "{}", home.error().0);
}

#[test]
fn an_unknown_key_has_a_place_and_a_nearest_name() {
    let home = Home::new();
    home.write("config/hames.toml", "model = \"m\"\n\n[limits]\n  max_iteration = 3\n");
    let (message, hint) = home.error();
    assert!(
        message.starts_with("~/config/hames.toml:4:3: unknown key `max_iteration`, known here: "),
        "{message}"
    );
    assert_eq!(hint.unwrap(), "did you mean `max_iterations`?");

    home.write("config/hames.toml", "[plugins]\ndirz = []\n");
    let (message, _) = home.error();
    assert!(message.starts_with("~/config/hames.toml:2:8: "), "{message}");
}

#[test]
fn a_wrong_protocol_is_answered_with_the_nearest() {
    let home = Home::new();
    home.write(
        "config/hames.toml",
        "[providers.mine]\nbase_url = \"http://x\"\nprotocol = \"openai_chat\"\n",
    );
    let (message, hint) = home.error();
    assert!(
        message
            .starts_with("~/config/hames.toml:3:12: unknown value `openai_chat`, known here: `openai-chat`"),
        "{message}"
    );
    assert_eq!(hint.unwrap(), "did you mean `openai-chat`?");
    home.write("config/hames.toml", "[providers.mine]\nprotocol = \"openai-chat\"\n");
    let settings = home.load(&[], &Overrides::default()).unwrap();
    assert_eq!(
        settings.providers.get("mine").and_then(|mine| mine.protocol),
        Some(hames_providers::Protocol::OpenAiChat)
    );
}

#[test]
fn routes_are_lists_of_provider_and_model() {
    let home = Home::new();
    home.write("config/hames.toml", "[routes]\ncoding = [\"a/b/c\", \"d/e\"]\n");
    let routes = home.load(&[], &Overrides::default()).unwrap().routes;
    let entry = |provider: &str, model: &str| RouteEntry { provider: provider.into(), model: model.into() };
    assert_eq!(routes.get("coding"), Some(&[entry("a", "b/c"), entry("d", "e")][..]));
    for (wrong, said) in [
        ("chat = [\"gpt-5\"]", "route `chat`: `gpt-5` is not written as `PROVIDER/MODEL`"),
        ("chat = [\"hint:coding/x\"]", "route `chat`: `hint:coding/x` is not written as"),
        ("chat = []", "route `chat` needs 1 to 32 models, and has 0"),
        ("\"a b\" = [\"a/b\"]", "the name of a route has letters"),
    ] {
        home.write("config/hames.toml", &format!("[routes]\n{wrong}\n"));
        let (message, _) = home.error();
        assert!(message.starts_with("~/config/hames.toml:1:1: ") && message.contains(said), "{message}");
    }
}

struct FakeKeyring;

impl Keyring for FakeKeyring {
    fn read(&self, service: &str, account: &str) -> Result<String, KeyringError> {
        if (service, account) == ("hames", "mine/two") {
            Ok("sk-1".to_owned())
        } else {
            Err(KeyringError::NoEntry)
        }
    }
}

#[test]
fn a_key_may_be_in_the_keyring() {
    let home = Home::new();
    let key = |reference: &str, has_keyring: bool| {
        home.write("config/hames.toml", &format!("[providers.mine]\napi_key = \"{reference}\"\n"));
        let mut environment = home.environment(&[]);
        if has_keyring {
            environment = environment.with_keyring(std::sync::Arc::new(FakeKeyring));
        }
        let settings = Settings::load(&environment, &Overrides::default()).unwrap();
        settings.provider_key("mine").map(|key| key.map(|key| key.expose().to_owned())).map_err(|error| {
            let message = error.to_string().replace(&home.dir.path().display().to_string(), "~");
            format!("{message} | {}", error.hint().unwrap())
        })
    };
    assert_eq!(key("keyring:hames/mine/two", true), Ok(Some("sk-1".to_owned())));
    let missing = key("keyring:hames/other", true).unwrap_err();
    assert!(
        missing.starts_with(
            "[providers.mine] api_key in ~/config/hames.toml: `keyring:hames/other`: the keyring has no"
        ) && missing.contains("secret-tool store --label=hames service hames username other"),
        "{missing}"
    );
    assert!(
        key("keyring:hames/mine", false).unwrap_err().contains("cannot be reached: none was given | start")
    );
    for half in ["keyring:", "keyring:hames", "keyring:/a", "keyring:a/"] {
        assert!(key(half, true).unwrap_err().contains("`keyring:SERVICE/ACCOUNT`"), "{half}");
    }
    let plain = key("sk-marker-1", true).unwrap_err();
    assert!(!plain.contains("sk-marker-1") && plain.contains("never as itself"), "{plain}");
}

#[test]
fn limits_of_plugins_are_laid_over_each_other() {
    let home = Home::new();
    home.write(
        "config/hames.toml",
        "[limits.plugin]\nwall_ms = 7\n[plugins.files.limits]\nlog_lines = 3\n[plugins.files.config]\nmax = 1",
    );
    let plugins = home.load(&[], &Overrides::default()).unwrap().plugins;
    assert_eq!((plugins.limits.wall_ms, plugins.limits_of("files").wall_ms), (7, 7));
    assert_eq!(plugins.limits_of("files").log_lines, 3);
    home.write("config/hames.toml", "[plugins.files.limits]\nlog_linez = 3");
    let (message, hint) = home.error();
    assert!(message.contains("unknown key `log_linez`"), "{message}");
    assert_eq!(hint.unwrap(), "did you mean `log_lines`?");
}

#[test]
fn a_workspace_only_chooses_and_narrows() {
    let home = Home::new();
    home.write(
        "config/hames.toml",
        "[providers.mine]\nbase_url = \"http://127.0.0.1:1/v1\"\n[limits]\nmax_iterations = 5",
    );
    home.write(
        "work/hames.toml",
        "provider = \"mine\"\n[limits]\nmax_iterations = 4\nmax_tokens = 9\n[plugins]\ndisabled = [\"a\"]",
    );
    let settings = home.load(&[], &Overrides::default()).unwrap();
    assert_eq!((settings.limits.max_iterations, settings.limits.max_tokens), (4, Some(9)));
    assert_eq!(settings.plugins.disabled, ["a"]);

    let refused = [
        (
            "[limits]\nmax_iterations = 6",
            "~/work/hames.toml:2:18: `limits.max_iterations` above the user's `limits.max_iterations` may",
        ),
        ("approve = \"always\"", "~/work/hames.toml:1:1: `approve` may"),
        ("[providers.x]\nbase_url = \"http://evil\"", "~/work/hames.toml:1:2: `providers` may"),
        ("providers.x.base_url = \"http://evil\"", "~/work/hames.toml:1:1: `providers` may"),
        ("[routes]\nchat = [\"a/b\"]", "~/work/hames.toml:1:2: `routes` may"),
        ("[plugins]\ndirs = [\".\"]", "~/work/hames.toml:2:1: `plugins.dirs` may"),
        ("[plugins.files.config]\na = 1", "~/work/hames.toml:1:10: `plugins.files` may"),
        ("[limits.plugin]\nwall_ms = 1", "~/work/hames.toml:1:9: `limits.plugin` may"),
        ("system_prompt = \"x.md\"", "~/work/hames.toml:1:1: `system_prompt` may"),
        ("dialect = \"xml\"", "~/work/hames.toml:1:1: `dialect` may"),
        ("notation = \"hermes\"", "~/work/hames.toml:1:1: `notation` may"),
        ("dialect_fallback = true", "~/work/hames.toml:1:1: `dialect_fallback` may"),
        ("[models.x]\ninput_usd_per_million = 0", "~/work/hames.toml:1:2: `models` may"),
        ("[summarizer]\nmodel = \"x\"", "~/work/hames.toml:1:2: `summarizer` may"),
        ("[results]\nmax_session_bytes = 0", "~/work/hames.toml:1:2: `results` may"),
        ("[memory]\nrecall = 9", "~/work/hames.toml:1:2: `memory` may"),
        ("[prompt]\nworkspace_file = \"x\"", "~/work/hames.toml:1:2: `prompt` may"),
        ("[tools.shell]\nenabled = true", "~/work/hames.toml:1:2: `tools` may"),
        ("tools = { shell = [true] }", "~/work/hames.toml:1:1: `tools` may"),
        ("[engine]", "~/work/hames.toml:1:2: `engine` may"),
        ("provider = \"recorded:x\"", "~/work/hames.toml:1:12: no provider `recorded:x` is defined"),
    ];
    for (text, expected) in refused {
        home.write("work/hames.toml", text);
        let (message, _) = home.error();
        assert!(message.starts_with(expected), "{text}: {message}");
    }
}

#[test]
fn the_file_of_a_workspace_is_a_plain_and_small_one() {
    let home = Home::new();
    let refused = |expected: &str| {
        let error = home.load(&[], &Overrides::default()).err().unwrap();
        let words = crate::words::chain(&error);
        assert!(words.contains("work/hames.toml") && words.contains(expected), "{words}");
        std::fs::remove_file(home.path("work/hames.toml")).unwrap();
    };
    std::os::unix::fs::symlink("/dev/zero", home.path("work/hames.toml")).unwrap();
    refused("not a regular file");
    let fifo = std::process::Command::new("mkfifo").arg(home.path("work/hames.toml")).status().unwrap();
    assert!(fifo.success());
    refused("not a regular file");
    home.write("work/hames.toml", &"#\n".repeat(600_000));
    refused("more than 1048576 bytes");
    // A link to a plain file is how some people keep their configuration.
    home.write("shared.toml", "model = \"m\"");
    std::os::unix::fs::symlink("../shared.toml", home.path("work/hames.toml")).unwrap();
    assert_eq!(home.load(&[], &Overrides::default()).unwrap().model.unwrap().value, "m");
}

#[test]
fn every_file_that_steers_is_known() {
    let home = Home::new();
    home.write("work/own.toml", "system_prompt = \"prompt.md\"");
    home.write("work/prompt.md", "be brief");
    let overrides = Overrides {
        config: Some("own.toml".into()),
        policy: Some("conf/policy.toml".into()),
        ..Overrides::default()
    };
    let settings = home.load(&[], &overrides).unwrap();
    for name in ["hames.toml", "conf/policy.toml", "own.toml", "prompt.md"] {
        let file = home.path("work").join(name);
        assert!(settings.steering_files.contains(&file), "{name}: {:?}", settings.steering_files);
    }
}

#[test]
fn credentials_are_references() {
    let home = Home::new();
    let toml = "[providers.a]\napi_key = \"env:KEY\"\n[providers.b]\napi_key = \"file:key\"\n[providers.c]\napi_key = \"sk-123\"";
    home.write("config/hames.toml", toml);
    home.write("config/key", "from file\n");
    let settings = home.load(&[("KEY", "from env")], &Overrides::default()).unwrap();
    assert_eq!(settings.provider_key("a").unwrap().unwrap().expose(), "from env");
    assert_eq!(settings.provider_key("b").unwrap().unwrap().expose(), "from file");
    let error = settings.provider_key("c").err().unwrap().to_string();
    assert!(!error.contains("sk-123") && error.contains("never as itself"), "{error}");
    assert_eq!(format!("{:?}", settings.provider_key("a").unwrap()), "Some(***)");
}

const ONE: &str = "blake3:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER: &str = "blake3:2222222222222222222222222222222222222222222222222222222222222222";

fn ask() -> Capabilities {
    let fs = FsCapability { path: ".".into(), mode: FsMode::ReadWrite, reason: Some("why".into()) };
    Capabilities { fs: vec![fs], ..Capabilities::default() }
}

fn policy(text: &str) -> Policy {
    Policy::from_text(text, Path::new("policy.toml")).unwrap()
}

#[test]
fn first_party_plugins_have_defaults_and_others_need_a_pinned_entry() {
    let policy = Policy::built_in();
    let Admission::Granted(files) = policy.admit("files", ONE, &ask(), true) else { panic!() };
    assert_eq!(files.fs.first().unwrap().mode, FsMode::ReadWrite);
    let Admission::Granted(fetch) = policy.admit("http-fetch", ONE, &ask(), true) else { panic!() };
    assert_eq!(fetch.worst_effect(), Effect::External);
    // The name alone is worth nothing.
    let Admission::Refused { lines, .. } = policy.admit("files", ONE, &ask(), false) else { panic!() };
    assert_eq!(
        lines,
        format!(
            "[plugins.files]\ndigest = \"{ONE}\"\n\n[[plugins.files.grant.fs]]\npath = \".\"\nmode = \"rw\"\n"
        )
    );
    // The lines that are printed are the lines that work.
    let granted = self::policy(&lines);
    let expected = Capabilities {
        fs: vec![FsCapability { reason: None, ..ask().fs.remove(0) }],
        ..Capabilities::default()
    };
    assert_eq!(granted.admit("files", ONE, &ask(), false), Admission::Granted(expected));
    let Admission::Refused { reason, .. } = granted.admit("files", OTHER, &ask(), false) else { panic!() };
    assert!(reason.contains("changed"), "{reason}");
    let Admission::Refused { .. } = granted.admit("files", OTHER, &ask(), true) else { panic!() };
    let unpinned = self::policy("[plugins.x]\n");
    assert!(matches!(unpinned.admit("x", ONE, &ask(), false), Admission::Refused { .. }));
}

#[test]
fn an_unusable_policy_refuses_everything() {
    let home = Home::new();
    home.write("config/policy.toml", "[effects]\nwrite = \"allow\"\nexternel = \"deny\"\n");
    let file = home.path("config/policy.toml");
    let policy = Policy::load(&file, false, &home.environment(&[]));
    let problem = policy.problem.as_ref().unwrap();
    assert!(problem.to_string().contains("policy.toml:3:1: unknown key `externel`"), "{problem}");
    assert_eq!(problem.hint().unwrap(), "did you mean `external`?");
    assert_eq!(policy.calls.decide("read_file", Effect::Read).action, Action::Deny);
    assert!(matches!(policy.admit("files", ONE, &ask(), true), Admission::Refused { .. }));
    // So does one that a person named and that is not there.
    let missing = Policy::load(&home.path("nowhere.toml"), true, &home.environment(&[]));
    assert_eq!(missing.calls.decide("read_file", Effect::Read).action, Action::Deny);
    let absent = Policy::load(&home.path("nowhere.toml"), false, &home.environment(&[]));
    assert_eq!(absent.calls.decide("read_file", Effect::Read).action, Action::Allow);
    assert_eq!((absent.max_actions_per_hour, missing.max_actions_per_hour), (60, 0));
}

#[test]
fn policy_rules_are_read() {
    let policy = policy(
        "[effects]\nwrite = \"allow\"\n[tools]\nwrite_file = \"deny\"\n[autonomy]\nmax_actions_per_hour = 7",
    );
    assert_eq!(policy.calls.decide("edit_file", Effect::Write).action, Action::Allow);
    assert_eq!(policy.calls.decide("write_file", Effect::Write).action, Action::Deny);
    assert_eq!(policy.calls.decide("fetch", Effect::External).action, Action::Ask);
    assert_eq!(policy.max_actions_per_hour, 7);
    let error = Policy::from_text("[tools]\nx = \"alow\"", Path::new("p.toml")).err().unwrap();
    assert_eq!(error.hint().unwrap(), "did you mean `allow`?");
}

#[test]
fn a_summarizer_is_the_turns_own_model_unless_the_user_names_another() {
    let home = Home::new();
    let none = Overrides::default();
    let settings = home.load(&[], &none).unwrap();
    assert_eq!(settings.summarizer, SummarizerSettings::default());
    assert!(settings.summarizer.enabled && settings.summarizer.model.is_none());
    assert_eq!(settings.results.max_session_bytes, 512 * 1024 * 1024);
    home.write(
        "config/hames.toml",
        "[summarizer]\nmodel = \"small\"\nresults = false\n[results]\nmax_session_bytes = 7\n",
    );
    let settings = home.load(&[], &none).unwrap();
    let expected = SummarizerSettings {
        model: Some("small".to_owned()),
        results: false,
        ..SummarizerSettings::default()
    };
    assert_eq!((settings.summarizer, settings.results.max_session_bytes), (expected, 7));
    home.write("work/hames.toml", "[summarizer]\nprovider = \"elsewhere\"\n");
    let (message, hint) = home.error();
    assert!(message.contains("`summarizer`"), "{message} {hint:?}");
}

#[test]
fn a_limit_that_is_no_number_is_named_with_its_place() {
    let home = Home::new();
    for key in [
        "max_cost_microdollars",
        "max_session_cost_microdollars",
        "max_day_cost_microdollars",
        "max_turn_result_bytes",
        "max_hook_ms",
    ] {
        for value in ["-1", "1.5", "nan", "inf", "\"9\"", "true", "1e3", "99999999999999999999"] {
            home.write("config/hames.toml", &format!("[limits]\n  {key} = {value}\n"));
            let (message, _) = home.error();
            let start = format!("~/config/hames.toml:2:{}: `{key}`: ", 6 + key.len());
            assert!(message.starts_with(&start), "{value}: {message}");
        }
        home.write("config/hames.toml", &format!("limits = {{ max_iterations = 3, {key} = -1 }}\n"));
        assert!(home.error().0.contains(&format!("`{key}`: ")), "{}", home.error().0);
    }
    home.write(
        "config/hames.toml",
        "[limits]\nmax_session_cost_microdollars = 7\nmax_day_cost_microdollars = 9\nmax_hook_ms = 1\n",
    );
    home.write("work/hames.toml", "[limits]\nmax_day_cost_microdollars = 8\n");
    let limits = home.load(&[], &Overrides::default()).unwrap().limits;
    let told = (limits.max_session_cost_microdollars, limits.max_day_cost_microdollars, limits.max_hook_ms);
    assert_eq!(told, (Some(7), Some(8), 1));
    home.write("work/hames.toml", "[limits]\nmax_day_cost_microdollars = 10\n");
    assert!(home.error().0.contains("`limits.max_day_cost_microdollars` above the user's"));
}

#[test]
fn prices_of_models_are_checked_and_the_longest_prefix_wins() {
    use hames_core::provider::ModelFacts;
    use hames_core::types::Rate;

    let home = Home::new();
    for value in ["nan", "inf", "-inf", "-0.01", "1000001", "1e300", "\"1\"", "true"] {
        home.write(
            "config/hames.toml",
            &format!("[models.\"m\"]\ninput_usd_per_million = 1\noutput_usd_per_million = {value}\n"),
        );
        let (message, _) = home.error();
        assert!(
            message.starts_with("~/config/hames.toml:3:26: `output_usd_per_million`: "),
            "{value}: {message}"
        );
    }
    home.write("config/hames.toml", "[models.\"m\"]\ncached_read_usd_per_million = 1\n");
    assert_eq!(
        home.error().0,
        "~/config/hames.toml:2:31: [models.\"m\"] has no `input_usd_per_million` and no `output_usd_per_million`"
    );
    home.write("config/hames.toml", "[models.\"m\"]\ninput_usd = 1\n");
    assert!(home.error().0.contains("hames.toml:2:1: unknown key `input_usd`"), "{}", home.error().0);

    home.write(
        "config/hames.toml",
        "[models.\"qwen\"]\ninput_usd_per_million = 0.15\noutput_usd_per_million = 2\n\
         [models.\"Qwen3-big\"]\ninput_usd_per_million = 1\noutput_usd_per_million = 0.0000001\n\
         cached_read_usd_per_million = 0.07\ncached_write_usd_per_million = 1.25\n\
         [models.\"mine/local\"]\ninput_usd_per_million = 0\noutput_usd_per_million = 0\n",
    );
    let speech = home.load(&[], &Overrides::default()).unwrap().speech;
    let known = ModelFacts { context_tokens: Some(5), is_free: true, ..ModelFacts::default() };
    let rate = |input, output, cached_read, cached_write| Rate { input, output, cached_read, cached_write };
    let priced = |rate| ModelFacts { is_free: false, rate: Some(rate), ..known };
    assert_eq!(speech.facts("qwen3:8b", known), priced(rate(150_000, 2_000_000, 150_000, 150_000)));
    assert_eq!(speech.facts("vendor/qwen3-BIG-1", known), priced(rate(1_000_000, 1, 70_000, 1_250_000)));
    let free = ModelFacts { is_free: true, rate: Some(rate(0, 0, 0, 0)), ..ModelFacts::default() };
    assert_eq!(speech.facts("mine/local-7b", ModelFacts::default()), free);
    assert_eq!(speech.facts("other", known), known);

    home.write("work/hames.toml", "[models.\"qwen\"]\ninput_usd_per_million = 0\n");
    assert!(home.error().0.contains("`models` may not be set by a workspace"));
}

#[test]
fn how_a_model_is_spoken_to_is_flag_provider_file_then_its_table() {
    use hames_core::provider::ModelFacts;
    use hames_core::types::{DialectKind, Notation};

    let home = Home::new();
    home.write(
        "config/hames.toml",
        "dialect = \"native\"\ndialect_fallback = true\n[providers.mine]\ndialect = \"auto\"\nnotation = \"fenced\"\n\
         [models.qwen]\ndialect = \"xml\"\ncontext_tokens = 9000\nprefilled_think = true\n\
         [models.\"Qwen3-Coder\"]\nnotation = \"qwen_xml\"\ndialect = \"pformat\"\n",
    );
    let speech = home.load(&[], &Overrides::default()).unwrap().speech;
    assert_eq!(speech.dialect("other").map(|chosen| chosen.value), Some(DialectSetting::Native));
    assert_eq!(speech.dialect("mine").map(|chosen| chosen.value), Some(DialectSetting::Auto));
    assert_eq!(speech.notation("mine").map(|chosen| chosen.value), Some(Notation::Fenced));
    assert_eq!(speech.notation("other"), None);
    assert!(speech.parses_tagged_text);

    let known = ModelFacts { notation: Some(Notation::Hermes), is_free: true, ..ModelFacts::default() };
    let qwen = ModelFacts {
        dialect: Some(DialectKind::Xml),
        context_tokens: Some(9000),
        is_prefilled_think: true,
        ..known
    };
    assert_eq!(speech.facts("Qwen/Qwen2.5-7B", known), qwen);
    let coder = speech.facts("qwen3-coder:30b", known);
    assert_eq!((coder.dialect, coder.notation), (Some(DialectKind::PFormat), Some(Notation::QwenXml)));
    assert_eq!(speech.facts("llama3", known), known);

    let in_words = |speech: &SpeechSettings, provider: &str, model: &str| {
        speech.in_words(provider, model, known).replace(&home.dir.path().display().to_string(), "~")
    };
    assert_eq!(
        in_words(&speech, "mine", "qwen2.5"),
        "xml (from [models.\"qwen\"] in ~/config/hames.toml), notation fenced (from ~/config/hames.toml)"
    );
    assert_eq!(
        in_words(&speech, "other", "llama3"),
        "native (from ~/config/hames.toml), calls in the text are read too: notation hermes (from what is known of \
         `llama3`)"
    );
    let overrides = Overrides {
        dialect: Some(DialectSetting::Xml),
        notation: Some(Notation::Glm),
        ..Overrides::default()
    };
    let speech = home.load(&[], &overrides).unwrap().speech;
    assert_eq!(in_words(&speech, "mine", "x"), "xml (from --dialect), notation glm (from --notation)");
}

#[test]
fn an_unknown_dialect_or_notation_is_named_with_its_place() {
    for (text, expected, nearest) in [
        ("dialect = \"nativ\"", "~/config/hames.toml:1:11: unknown value `nativ`", "native"),
        ("notation = \"herms\"", "~/config/hames.toml:1:12: unknown value `herms`", "hermes"),
        (
            "[models.x]\nnotation = \"qwen-xml\"",
            "~/config/hames.toml:2:12: unknown value `qwen-xml`",
            "qwen_xml",
        ),
        ("[models.x]\ndialct = \"xml\"", "~/config/hames.toml:2:1: unknown key `dialct`", "dialect"),
    ] {
        let home = Home::new();
        home.write("config/hames.toml", text);
        let (message, hint) = home.error();
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(hint, Some(format!("did you mean `{nearest}`?")), "{text}");
    }
    assert!(notation_from_name("herms").unwrap_err().contains("did you mean `hermes`?"));
}

#[test]
fn the_marks_of_the_context_are_in_order_or_an_error_and_never_the_workspaces() {
    let home = Home::new();
    home.write("config/hames.toml", "[context]\ncompact_at_percent = 70\nkeep_results = 3\n");
    let settings = home.load(&[], &Overrides::default()).unwrap();
    let expected = hames_core::types::ContextLimits {
        compact_at_percent: 70,
        keep_results: 3,
        ..hames_core::types::ContextLimits::default()
    };
    assert_eq!(settings.context, expected);
    for (text, word) in [
        ("compact_at_percent = 95", "`compact_at_percent`"),
        ("hard_at_percent = 101", "`hard_at_percent`"),
        ("headroom_percent = 80", "`headroom_percent`"),
        ("keep_recent_percent = 80", "`keep_recent_percent`"),
        ("unknown_window_tokens = 5", "`unknown_window_tokens`"),
        ("compact_at = 5", "compact_at"),
    ] {
        home.write("config/hames.toml", &format!("[context]\n{text}\n"));
        let (message, hint) = home.error();
        assert!(message.contains(word), "{text}: {message} {hint:?}");
    }
    home.write("config/hames.toml", "");
    home.write("work/hames.toml", "[context]\nkeep_results = 0\n");
    let (message, hint) = home.error();
    assert!(message.contains("`context`"), "{message} {hint:?}");
}

#[test]
fn a_wrong_value_is_said_in_words_with_a_hint() {
    for (text, expected) in [
        ("dialect = 5", "1:11: `dialect`: expected a string"),
        ("tools = true", "1:9: `tools`: invalid type: boolean `true`, expected a table"),
        ("[models]\nx = 5", "2:5: `x`: invalid type: integer `5`, expected a table"),
        (
            "[models.x]\ncontext_tokens = 0",
            "2:18: `context_tokens`: a window has at least 1024 tokens, not 0",
        ),
        (
            "[models.x]\ncontext_tokens = -1",
            "2:18: `context_tokens`: invalid value: integer `-1`, expected a whole number, 0 or more",
        ),
        (
            "[context]\ncompact_at_percent = 300",
            "2:22: `compact_at_percent`: invalid value: integer `300`, expected a whole number from 0 to 255",
        ),
        (
            "[limits]\nmax_cost_microdollars = nan",
            "2:25: `max_cost_microdollars`: invalid type: floating point `NaN`, expected a whole number, 0 or more",
        ),
        (
            "[summarizer]\nover_bytes = 10\nmax_bytes = 10",
            "1:1: `over_bytes` = 10 must be less than `max_bytes` = 10",
        ),
        ("[summarizer]\nmax_bytes = 10", "1:1: `over_bytes` = 49152 must be less than `max_bytes` = 10"),
    ] {
        let home = Home::new();
        home.write("config/hames.toml", text);
        let hint = "correct it, or take it out to have the default";
        assert_eq!(home.error(), (format!("~/config/hames.toml:{expected}"), Some(hint.to_owned())));
    }
    let home = Home::new();
    std::fs::write(home.path("config/hames.toml"), b"model = \"\xff\"").unwrap();
    assert_eq!(home.error().1.unwrap(), "write it as UTF-8");
}
