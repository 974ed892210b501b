//! What the sources add up to, and the exact words for what is wrong in them.

use super::*;

fn loaded(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Loaded, String> {
    let file = SourceFile::of_text(file);
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let flags: Vec<_> = flags
        .iter()
        .map(|(key, text)| Given { key: (*key).into(), flag: format!("--{key}"), text: (*text).into() })
        .collect();
    load(Some(&file), environment, &flags).map_err(|mistake| mistake.to_string())
}

fn mistake(file: &str) -> String {
    loaded(file, &[], &[]).expect_err("a mistake")
}

#[test]
fn the_defaults() {
    let config = load(None, [], &[]).unwrap().config;
    assert_eq!(config.listen.to_string(), "127.0.0.1:5060");
    assert_eq!(config.realm().as_str(), "busyhour.example");
    assert_eq!((config.data.to_str(), config.proxies, &config.provision), (Some("data"), 2, &None));
    assert_eq!(config.proxy_listen(0).to_string(), "127.0.0.1:5071");
    assert_eq!(config.proxy_listen(1).to_string(), "127.0.0.1:5072");
    assert_eq!(config.proxy.authenticate, ["REGISTER", "INVITE"]);
    assert_eq!(config.proxy.timer_c, Duration::from_secs(180));
    assert_eq!(config.net.receive_buffer, 4 << 20);
    assert_eq!(loaded("", &[], &[]).unwrap().config, config);
}

#[test]
fn every_key_can_stand_in_the_file() {
    let config = loaded(
        r#"
        listen = "[::1]:6000"
        domain = ["A.example", "b.example", "a.example."]
        data = "/var/lib/busyhour"
        proxies = 16
        proxy_listen = "[::1]:0"
        provision = "000-999"
        provision_password = "{user}!"
        balancer = { record_route = false, path = false }
        net.receive_buffer = "64KiB"
        [proxy]
        record_route = false
        authenticate = []
        digest = "sha-256"
        timer_c = "4m"
        transactions_max = 5
        nonce_lifetime = "1h"
        min_expires = "30s"
        max_expires = "1d"
        default_expires = "90s"
        contacts_max = 3
        max_breadth = 8
        max_forwards = 0x10
        next_hop = "127.0.1.11:5060"
        "#,
        &[],
        &[],
    );
    let minutes = |n: u64| Duration::from_secs(n * 60);
    let expected = Config {
        listen: "[::1]:6000".parse().unwrap(),
        domains: vec![Domain::parse("a.example").unwrap(), Domain::parse("b.example").unwrap()],
        data: "/var/lib/busyhour".into(),
        proxies: 16,
        proxy_listen: "[::1]:0".parse().unwrap(),
        provision: Some(NumberRange::parse("000-999").unwrap()),
        provision_password: PasswordTemplate::parse("{user}!").unwrap(),
        proxy: ProxyConfig {
            record_route: false,
            authenticate: Vec::new(),
            digest: vec![Algorithm::Sha256],
            next_hop: Some("127.0.1.11:5060".parse().unwrap()),
            timer_c: minutes(4),
            transactions_max: 5,
            nonce_lifetime: minutes(60),
            min_expires: Duration::from_secs(30),
            max_expires: minutes(1440),
            default_expires: Duration::from_secs(90),
            contacts_max: 3,
            max_breadth: 8,
            max_forwards: 16,
        },
        balancer: BalancerConfig { record_route: false, path: false },
        net: NetConfig { receive_buffer: 65_536 },
    };
    assert_eq!(expected.proxy_listen(15).port(), 0, "port 0 stays 0 for every proxy");
    assert_eq!(config.unwrap().config, expected);
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let file = "proxies = 3\nlisten = \"127.0.0.1:6000\"\n[proxy]\ntimer_c = \"60s\"";
    let environment = [("BUSYHOUR_PROXIES", "4"), ("BUSYHOUR_PROXY_TIMER_C", "61s")];
    let loaded = loaded(file, &environment, &[("proxies", "5")]).unwrap();
    assert_eq!((loaded.config.proxies, loaded.origin("proxies").to_string()), (5, "--proxies".into()));
    assert_eq!(loaded.config.proxy.timer_c.as_secs(), 61);
    assert_eq!(loaded.origin("proxy.timer_c").to_string(), "BUSYHOUR_PROXY_TIMER_C");
    assert_eq!(loaded.config.listen.port(), 6000);
    assert_eq!(loaded.origin("listen").to_string(), "busyhour.toml:2");
    assert_eq!(loaded.origin("data").to_string(), "default");
    assert_eq!(loaded.config.proxy_listen.port(), 6011, "the default follows the balancer");
}

#[test]
fn lists_are_arrays_in_a_file_and_have_commas_in_text() {
    let names = |loaded: Loaded| loaded.config.domains.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(loaded("domain = \"a.example\"", &[], &[]).unwrap()), ["a.example"]);
    let environment = [("BUSYHOUR_DOMAIN", "b.example, c.example")];
    assert_eq!(
        names(loaded("domain = \"a.example\"", &environment, &[]).unwrap()),
        ["b.example", "c.example"]
    );
    let off = loaded("", &[], &[("proxy.authenticate", "")]).unwrap();
    assert!(off.config.proxy.authenticate.is_empty());
}

#[test]
fn the_last_of_two_equal_flags_wins() {
    assert_eq!(loaded("", &[], &[("proxies", "3"), ("proxies", "7")]).unwrap().config.proxies, 7);
}

#[test]
fn an_empty_variable_is_not_set() {
    let loaded = loaded("", &[("BUSYHOUR_PROXIES", "")], &[]).unwrap();
    assert_eq!(loaded.origin("proxies"), &Origin::Default);
}

#[test]
fn variables_of_services_are_no_keys_and_no_key_looks_like_one() {
    let environment =
        [("BUSYHOUR_BALANCER_PORT", "udp://10.0.0.1:5060"), ("BUSYHOUR_SERVICE_HOST", "10.0.0.1")];
    let loaded = loaded("", &environment, &[]).unwrap();
    let mut names: Vec<_> = loaded.entries.iter().map(|entry| reader::variable_of(entry.key)).collect();
    assert!(!names.iter().any(|name| sources::is_service_variable(name)), "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), loaded.entries.len(), "two keys have the same variable");
}

#[test]
fn wrong_values_name_file_line_key_expected_and_found() {
    let cases = [
        (
            "listen = 5060",
            "busyhour.toml:1:10: listen: expected an IP address and a port, such as \"127.0.0.1:5060\" or \"[::1]:5060\", found the number 5060",
        ),
        (
            "\n[proxy]\ntimer_c = 180 # seconds",
            "busyhour.toml:3:11: proxy.timer_c: expected a duration from 1s to 1h, such as \"180s\", found the number 180; add the unit: \"180s\"",
        ),
        (
            "proxy.timer_c = \"180\"",
            "busyhour.toml:1:17: proxy.timer_c: expected a duration from 1s to 1h, such as \"180s\", found \"180\"; add the unit: \"180s\"",
        ),
        (
            "proxy.timer_c = \"2h\"",
            "busyhour.toml:1:17: proxy.timer_c: expected a duration from 1s to 1h, such as \"180s\", found \"2h\"",
        ),
        (
            "proxies = 0",
            "busyhour.toml:1:11: proxies: expected a whole number from 1 to 1024, found the number 0",
        ),
        (
            "proxies = -1",
            "busyhour.toml:1:11: proxies: expected a whole number from 1 to 1024, found the number -1",
        ),
        (
            "proxies = 99999999999999999999999",
            "busyhour.toml:1:11: proxies: expected a whole number from 1 to 1024, found the number 99999999999999999999999",
        ),
        (
            "proxies = \"2\"",
            "busyhour.toml:1:11: proxies: expected a whole number from 1 to 1024, found \"2\"",
        ),
        (
            "balancer.path = \"yes\"",
            "busyhour.toml:1:17: balancer.path: expected true or false, found \"yes\"",
        ),
        (
            "[net]\nreceive_buffer = 4194304",
            "busyhour.toml:2:18: net.receive_buffer: expected a size from 64KiB to 1GiB, such as \"4MiB\", found the number 4194304; add the unit: \"4194304B\"",
        ),
        (
            "domain = [\n  \"a.example\",\n  \"sip:b.example\",\n]",
            "busyhour.toml:3:3: domain: expected a domain name or an IP address, without scheme and port, found \"sip:b.example\"",
        ),
        ("domain = []", "busyhour.toml:1:10: domain: expected a list of 1 to 1000 elements, found 0"),
        (
            "proxy.authenticate = [\"INVITE\", \"register\"]",
            "busyhour.toml:1:33: proxy.authenticate: expected a SIP method in capitals, such as \"INVITE\", found \"register\"",
        ),
        (
            "proxy.digest = [\"MD5\", \"SHA-1\"]",
            "busyhour.toml:1:24: proxy.digest: expected a digest algorithm, \"MD5\" or \"SHA-256\", found \"SHA-1\"",
        ),
        (
            "proxy.authenticate = \"CANCEL\"",
            "busyhour.toml:1:22: proxy.authenticate: expected a method that can be challenged; ACK and CANCEL cannot (RFC 3261 section 22.1), found \"CANCEL\"",
        ),
        (
            "provision = \"0-99\"",
            "busyhour.toml:1:13: provision: expected a range of numbers with the same count of digits, such as 0000-9999 or u100-u199, found \"0-99\"",
        ),
        (
            "provision_password = \"pw{name}\"",
            "busyhour.toml:1:22: provision_password: expected 1 to 512 bytes in which {user} stands for the user name, such as pw{user}, found \"pw{name}\"",
        ),
        ("data = \"\"", "busyhour.toml:1:8: data: expected a directory, found \"\""),
        ("data = { dir = 1 }", "busyhour.toml:1:8: data: expected a directory, found a table"),
        ("proxy = 3", "busyhour.toml:1:9: proxy: expected a table, [proxy], found the number 3"),
    ];
    for (file, expected) in cases {
        assert_eq!(mistake(file), expected);
    }
}

#[test]
fn unknown_keys_come_with_the_nearest_known_one() {
    let cases = [
        (
            "listn = 1",
            "busyhour.toml:1:1: listn: expected a known key, found \"listn\"; did you mean listen?",
        ),
        (
            "[proxy]\n\"maxbreadth\" = 1",
            "busyhour.toml:2:1: proxy.maxbreadth: expected a known key, found \"maxbreadth\"; did you mean proxy.max_breadth?",
        ),
        (
            "timer_c = \"60s\"",
            "busyhour.toml:1:1: timer_c: expected a known key, found \"timer_c\"; did you mean proxy.timer_c?",
        ),
        (
            "[balancer]\ntimer_c = \"60s\"",
            "busyhour.toml:2:1: balancer.timer_c: expected a known key, found \"timer_c\"; did you mean proxy.timer_c?",
        ),
        (
            "[proxi]\nmax_breadth = 1",
            "busyhour.toml:1:2: proxi: expected a known table, found \"proxi\"; did you mean [proxy]?",
        ),
        (
            "[balancer]\nbananas = 1",
            "busyhour.toml:2:1: balancer.bananas: expected a known key, found \"bananas\"; the keys are balancer.record_route, balancer.path",
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(mistake(file), expected);
    }
}

#[test]
fn text_that_is_not_toml_is_located() {
    let cases = [
        (
            "listen = 127.0.0.1:5060",
            "busyhour.toml:1:15: expected valid TOML, found a mistake: invalid float, expected nothing; addresses, durations and sizes stand in quotes",
        ),
        (
            "proxies = 2\n[proxy]\ntimer_c = 180s",
            "busyhour.toml:3:11: expected valid TOML, found a mistake: string values must be quoted, expected literal string",
        ),
        (
            "proxies = 1\nproxies = 2",
            "busyhour.toml:2:1: expected valid TOML, found a mistake: duplicate key",
        ),
        (
            "ü",
            "busyhour.toml:1:1: expected valid TOML, found a mistake: invalid unquoted key, expected letters, numbers, `-`, `_`",
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(mistake(file), expected);
    }
}

#[test]
fn flags_and_variables_are_named_as_the_user_knows_them() {
    let count = "expected a whole number from 1 to 1024, found \"many\"";
    assert_eq!(loaded("", &[], &[("proxies", "many")]).unwrap_err(), format!("--proxies: {count}"));
    assert_eq!(
        loaded("", &[("BUSYHOUR_PROXIES", "many")], &[]).unwrap_err(),
        format!("BUSYHOUR_PROXIES: {count}")
    );
    assert_eq!(
        loaded("", &[("BUSYHOUR_PROXY_TIMERC", "1s")], &[]).unwrap_err(),
        "BUSYHOUR_PROXY_TIMERC: expected BUSYHOUR_ and the name of a key, found a name that no key has; did you mean BUSYHOUR_PROXY_TIMER_C?"
    );
    assert_eq!(
        loaded("", &[("BUSYHOUR_APRICOTS", "1s")], &[]).unwrap_err(),
        "BUSYHOUR_APRICOTS: expected BUSYHOUR_ and the name of a key, found a name that no key has; `busyhour config check` lists all keys"
    );
    assert_eq!(
        loaded("", &[], &[("proxy.timerc", "1s")]).unwrap_err(),
        "--proxy.timerc: expected a key, found \"proxy.timerc\"; did you mean proxy.timer_c?"
    );
}

#[test]
fn the_first_mistake_of_the_file_is_the_one_that_is_told() {
    let file = "typo = 1\nproxies = 0\n[proxy]\ntimer_c = 1";
    assert!(mistake(file).starts_with("busyhour.toml:1:1: typo"));
    assert!(mistake(&file[9..]).starts_with("busyhour.toml:1:11: proxies"));
    let both = loaded("[net]\nx = 1", &[("BUSYHOUR_X", "1")], &[("proxies", "x")]).unwrap_err();
    assert!(both.starts_with("busyhour.toml:2:1"), "{both}");
}

#[test]
fn a_wrong_value_does_not_hide_behind_a_stronger_source() {
    let error = loaded("proxies = 0", &[], &[("proxies", "2")]).unwrap_err();
    assert!(error.starts_with("busyhour.toml:1:11: proxies"), "{error}");
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let cases = [
        (
            "[proxy]\nmax_expires = \"10s\"",
            "busyhour.toml:2:15: proxy.max_expires: expected a duration not below min_expires (1m), found 10s",
        ),
        (
            "[proxy]\ndefault_expires = \"3h\"",
            "busyhour.toml:2:19: proxy.default_expires: expected a duration from min_expires (1m) to max_expires (2h), found 3h",
        ),
        (
            "proxies = 3\nproxy_listen = \"127.0.0.1:5058\"",
            "busyhour.toml:2:16: proxy_listen: expected ports for the proxies that the balancer does not listen on, found 5058 to 5060 for 3 proxies, and listen = 127.0.0.1:5060",
        ),
        (
            "proxies = 3\nproxy_listen = \"127.0.0.1:65534\"",
            "busyhour.toml:2:16: proxy_listen: expected a port with 2 free ports above it, one for each further proxy, found port 65534",
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(mistake(file), expected);
    }
    assert!(loaded("proxies = 2\nproxy_listen = \"127.0.0.1:65534\"", &[], &[]).is_ok());
    assert!(loaded("proxy_listen = \"127.0.0.2:5060\"", &[], &[]).is_ok());
}

#[test]
fn the_effective_configuration_is_a_file_that_gives_the_same() {
    let environment = [("BUSYHOUR_DOMAIN", "a.example,[2001:db8::1]"), ("BUSYHOUR_PROVISION", "00-99")];
    let flags = [("proxy.timer_c", "1500ms"), ("provision_password", "\"\\{user}")];
    let first = loaded("data = \"a b\"", &environment, &flags).unwrap();
    let mut text = Vec::new();
    first.write_effective(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let second = loaded(&text, &[], &[]).unwrap();
    assert_eq!(second.config, first.config, "{text}");
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    assert!(line("timer_c").ends_with("# --proxy.timer_c"), "{text}");
    assert!(line("domain").ends_with("# BUSYHOUR_DOMAIN"), "{text}");
    assert!(line("data").ends_with("# busyhour.toml:1"), "{text}");
    assert!(line("listen").ends_with("# default"), "{text}");
}
