//! Where values come from: one file, the environment, the command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use busyhour_lab::input::InputError;

/// The start of every variable that Busyhour reads.
pub(super) const PREFIX: &str = "BUSYHOUR_";
/// Variables that are no keys: the configuration file itself, and the filter of log messages.
const NOT_KEYS: [&str; 2] = [CONFIG_VARIABLE, "BUSYHOUR_LOG"];
/// Names the configuration file when `--config` does not.
pub(crate) const CONFIG_VARIABLE: &str = "BUSYHOUR_CONFIG";
/// A configuration is a page of text; what is larger is some other file.
const FILE_LEN_MAX: u64 = 1 << 20;

/// A value that was given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// The full name of the key.
    pub(crate) key: String,
    /// The flag, as the user wrote it.
    pub(crate) flag: String,
    /// The value as text.
    pub(crate) text: String,
}

/// A configuration file, read.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub(super) name: String,
    pub(super) text: String,
}

impl SourceFile {
    /// Reads the file at `path`, which must be UTF-8 text of at most 1 MiB.
    pub(crate) fn read(path: &Path) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let wrong = |found: String| InputError::new(name.clone(), "a readable configuration file", found);
        let mut bytes = Vec::new();
        let opened = File::open(path).map_err(|error| wrong(error.to_string()))?;
        opened.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
        if bytes.len() as u64 > FILE_LEN_MAX {
            return Err(wrong("more than 1 MiB".into()));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(SourceFile { name, text }),
            Err(error) => {
                let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                let mistake = InputError::new(name, "text in UTF-8", "a byte that is not UTF-8");
                Err(mistake.at_offset(&valid, valid.len()))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Self {
        SourceFile { name: "busyhour.toml".into(), text: text.into() }
    }
}

/// The variables of `environment` that are meant for the configuration, sorted by name. A variable that is set to nothing
/// counts as not set, because container tools cannot unset one.
pub(super) fn variables(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, InputError> {
    let mut variables = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str() else { continue };
        let is_ours = name.starts_with(PREFIX) && !NOT_KEYS.contains(&name) && !is_service_variable(name);
        if !is_ours || value.is_empty() {
            continue;
        }
        let value = value
            .into_string()
            .map_err(|_| InputError::new(name, "text in UTF-8", "bytes that are not UTF-8"))?;
        variables.push((name.to_owned(), value));
    }
    variables.sort();
    Ok(variables)
}

/// Kubernetes gives every container variables for the services of its namespace: a service named `busyhour-balancer`
/// makes `BUSYHOUR_BALANCER_SERVICE_HOST`, `…_SERVICE_PORT_SIP`, `…_PORT`, `…_PORT_5060_UDP_ADDR`. They are not meant for
/// Busyhour; no key may have such a name.
pub(super) fn is_service_variable(name: &str) -> bool {
    let port_and_protocol = |rest: &str| {
        let (port, protocol) = rest.split_once('_').unwrap_or((rest, ""));
        port.parse::<u16>().is_ok() && ["UDP", "TCP", "SCTP"].iter().any(|known| protocol.starts_with(known))
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || name.ends_with("_PORT")
        || name.split("_PORT_").skip(1).any(port_and_protocol)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn service_variables_are_told_from_keys() {
        for name in [
            "BUSYHOUR_SERVICE_HOST",
            "BUSYHOUR_SERVICE_PORT",
            "BUSYHOUR_SERVICE_PORT_SIP_UDP",
            "BUSYHOUR_PORT",
            "BUSYHOUR_BALANCER_PORT_5060_UDP",
            "BUSYHOUR_BALANCER_PORT_5060_UDP_ADDR",
        ] {
            assert!(is_service_variable(name), "{name}");
        }
        for name in ["BUSYHOUR_LISTEN", "BUSYHOUR_PROXY_LISTEN", "BUSYHOUR_PORT_RANGE", "BUSYHOUR_PORTS"] {
            assert!(!is_service_variable(name), "{name}");
        }
    }

    #[test]
    fn only_our_variables_with_a_value_are_taken() {
        let environment = [
            ("PATH", "/bin"),
            ("BUSYHOUR_PROXIES", "3"),
            ("BUSYHOUR_LISTEN", ""),
            ("BUSYHOUR_CONFIG", "x.toml"),
            ("BUSYHOUR_LOG", "debug"),
            ("BUSYHOUR_PORT", "udp://10.0.0.1:5060"),
            ("BUSYHOUR_DATA", "/data"),
        ];
        let taken = variables(environment.map(|(name, value)| (name.into(), value.into()))).unwrap();
        let expected = [("BUSYHOUR_DATA", "/data"), ("BUSYHOUR_PROXIES", "3")];
        assert_eq!(taken, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let error = variables([("BUSYHOUR_DATA".into(), OsString::from_vec(vec![0xff]))]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "BUSYHOUR_DATA: expected text in UTF-8, found bytes that are not UTF-8"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.toml");
        std::fs::write(&path, b"a = 1\nb = \"\xff\"\n").unwrap();
        let expected =
            format!("{}:2:6: expected text in UTF-8, found a byte that is not UTF-8", path.display());
        assert_eq!(SourceFile::read(&path).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = SourceFile::read(Path::new("/nonexistent/busyhour.toml")).unwrap_err().to_string();
        let expected = "/nonexistent/busyhour.toml: expected a readable configuration file, found No such file or directory (os error 2)";
        assert_eq!(error, expected);
        assert!(
            SourceFile::read(Path::new("/dev/zero")).unwrap_err().to_string().contains("more than 1 MiB")
        );
    }
}
