//! `busyhour user …`: subscribers, on the database in the data directory.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;

use busyhour_control::data_dir::DataDir;
use busyhour_control::secret::{PASSWORD_LEN_MAX, Password};
use busyhour_control::subscribers::{IfExists, SubscriberStore, UserName};

use crate::cli::{BaseArgs, UserCommand};
use crate::failure::Failure;
use crate::{config, load_config};
use busyhour_lab::input::InputError;

/// Runs the command, writing what it has to say to `out`.
pub(crate) fn run(command: UserCommand, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        UserCommand::Add { name, password, password_stdin: _, replace, base } => {
            let user = user_name(&name)?;
            let password = match password {
                Some(text) => in_place("--password", Password::parse(&text))?,
                None => in_place("standard input", Password::parse(&first_line(io::stdin().lock())?))?,
            };
            add(&user, &password, replace, &base, out)
        }
        UserCommand::List { base } => list(&base, out),
        UserCommand::Remove { names, base } => {
            let users: Result<Vec<_>, _> = names.iter().map(|name| user_name(name)).collect();
            remove(&users?, &base, out)
        }
    }
}

fn add(
    user: &UserName,
    password: &Password,
    replace: bool,
    base: &BaseArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let config = configured(base)?;
    let mut store = SubscriberStore::open(&DataDir::open(&config.data)?)?;
    let existing = if replace { IfExists::Replace } else { IfExists::Refuse };
    store.add(user, config.realm(), password, existing)?;
    let path = store.path().display();
    writeln!(out, "{user}@{} is in {path}", config.realm()).map_err(Failure::of_output)
}

fn list(base: &BaseArgs, out: &mut impl Write) -> Result<(), Failure> {
    let config = configured(base)?;
    let store = SubscriberStore::open(&DataDir::existing(&config.data)?)?;
    let realm = (!base.domain.is_empty()).then(|| config.realm());
    let mut out = BufWriter::new(out);
    let mut written = Ok(());
    store.for_each(realm, |realm, user| {
        written = writeln!(out, "{user}@{realm}");
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written.and_then(|()| out.flush()).map_err(Failure::of_output)
}

fn remove(users: &[UserName], base: &BaseArgs, out: &mut impl Write) -> Result<(), Failure> {
    let config = configured(base)?;
    let mut store = SubscriberStore::open(&DataDir::existing(&config.data)?)?;
    store.remove(users, config.realm())?;
    for user in users {
        writeln!(out, "{user}@{} is removed", config.realm()).map_err(Failure::of_output)?;
    }
    Ok(())
}

fn configured(base: &BaseArgs) -> Result<config::Config, Failure> {
    Ok(load_config(base.config.as_deref(), &base.given())?.config)
}

fn user_name(text: &str) -> Result<UserName, Failure> {
    in_place("NAME", UserName::parse(text))
}

/// Says where the wrong input was given.
fn in_place<T>(
    place: &str,
    outcome: Result<T, busyhour_control::subscribers::BadInput>,
) -> Result<T, Failure> {
    outcome.map_err(|bad| InputError::new(place, bad.expected, bad.found).into())
}

/// The first line without its end. Reads no more than a password can be long.
fn first_line(input: impl Read) -> Result<String, Failure> {
    let wrong =
        |found: String| Failure::from(InputError::new("standard input", "a password in UTF-8", found));
    let mut line = String::new();
    let mut input = BufReader::new(input.take(PASSWORD_LEN_MAX as u64 + 2));
    input.read_line(&mut line).map_err(|error| wrong(error.to_string()))?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_the_first_line_as_it_is() {
        for (input, password) in
            [("secret\n", "secret"), ("secret", "secret"), (" a b \r\nmore\n", " a b "), ("", ""), ("\n", "")]
        {
            assert_eq!(first_line(input.as_bytes()).unwrap(), password);
        }
        assert!(first_line(&b"\xff\n"[..]).is_err());
    }

    #[test]
    fn endless_input_is_not_read_to_its_end() {
        assert_eq!(first_line(io::repeat(b'x')).unwrap().len(), PASSWORD_LEN_MAX + 2);
    }
}
