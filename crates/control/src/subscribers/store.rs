//! The operations on the subscriber database.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use busyhour_sip::value::Ha1;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use super::{Domain, NumberRange, PasswordTemplate, StoreError, UserName, schema};
use crate::data_dir::DataDir;
use crate::secret::{ClusterSecret, Password};

const INSERT: &str = "INSERT INTO subscribers (realm, user, ha1_md5, ha1_sha256) VALUES (?1, ?2, ?3, ?4)";
const KEEP: &str = "ON CONFLICT (realm, user) DO NOTHING";
const REPLACE: &str =
    "ON CONFLICT (realm, user) DO UPDATE SET ha1_md5 = excluded.ha1_md5, ha1_sha256 = excluded.ha1_sha256";

/// One who may register and call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// The digest username, and the user part of the AoR.
    pub user: UserName,
    /// The digest realm, and the host part of the AoR.
    pub realm: Domain,
    /// The digest credentials.
    pub ha1: Ha1,
}

/// What [`SubscriberStore::add`] does about a user who is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Refuses with [`StoreError::UserExists`].
    Refuse,
    /// Gives the user the new password.
    Replace,
}

/// What [`SubscriberStore::provision`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisioned {
    /// Users that were created.
    pub added: u64,
    /// Users that were there already; they keep their passwords.
    pub kept: u64,
}

/// The state of the database when [`SubscriberStore::changed_since`] last looked. It means something only to the store
/// that filled it; a new one stands for "never looked".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token(Option<Seen>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// `PRAGMA data_version`: moves when another connection commits, and only then.
    others: i64,
    /// `sqlite3_total_changes`: moves when this connection changes rows.
    own: u64,
}

/// One connection to the subscriber database of a data directory.
#[derive(Debug)]
pub struct SubscriberStore {
    db: Connection,
    path: PathBuf,
}

/// Opening and looking.
impl SubscriberStore {
    /// The database `<data>/subscribers.db`, created when there is none. The directory need not be locked.
    pub fn open(data: &DataDir) -> Result<Self, StoreError> {
        let path = data.subscribers_path();
        Ok(SubscriberStore { db: schema::connect(&path)?, path })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every subscriber, sorted by realm and user.
    pub fn load_all(&self) -> Result<Vec<Subscriber>, StoreError> {
        let mut all = Vec::new();
        self.each(
            "SELECT realm, user, ha1_md5, ha1_sha256 FROM subscribers ORDER BY realm, user",
            None,
            |row| {
                let (realm, user) = self.key_of(row)?;
                let ha1 = self.sorted(row.get(2).and_then(|md5| Ok(Ha1 { md5, sha256: row.get(3)? })))?;
                all.push(Subscriber { user, realm, ha1 });
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(all)
    }

    /// Calls `visit` with the realm and the name of each user (of `realm` only, when one is given), sorted, one at a time,
    /// until it breaks.
    pub fn for_each(
        &self,
        realm: Option<&Domain>,
        mut visit: impl FnMut(Domain, UserName) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let sql = "SELECT realm, user FROM subscribers WHERE ?1 IS NULL OR realm = ?1 ORDER BY realm, user";
        self.each(sql, Some(realm.map(Domain::as_str)), |row| {
            self.key_of(row).map(|(realm, user)| visit(realm, user))
        })
    }

    /// The realms that have users, sorted, each with how many. A realm that differs from the domain of the cluster
    /// explains why nobody can register.
    pub fn realms(&self) -> Result<Vec<(Domain, u64)>, StoreError> {
        let mut realms = Vec::new();
        self.each("SELECT realm, count(*) FROM subscribers GROUP BY realm ORDER BY realm", None, |row| {
            let realm = self.domain(&self.sorted(row.get::<_, String>(0))?)?;
            realms.push((realm, self.sorted(row.get::<_, i64>(1))?.unsigned_abs()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(realms)
    }

    /// Whether anything may have changed, by this process or another, since `token` was last passed in; true for a new
    /// token. Costs no disk access when nothing changed, so it may be polled several times a second.
    ///
    /// Call it before [`SubscriberStore::load_all`]: then a change in between is reported by the next call.
    pub fn changed_since(&self, token: &mut Token) -> Result<bool, StoreError> {
        let others = self.sorted(self.db.query_row("PRAGMA data_version", [], |row| row.get(0)))?;
        let seen = Some(Seen { others, own: self.db.total_changes() });
        Ok(std::mem::replace(&mut token.0, seen) != seen)
    }
}

/// Changing. Each call is one transaction: all of it is on disk when it returns, or none.
impl SubscriberStore {
    /// Adds `user` to `realm` with the credentials that `password` gives.
    ///
    /// # Errors
    /// [`StoreError::UserExists`] for a user who is there already, unless `existing` says to replace.
    pub fn add(
        &mut self,
        user: &UserName,
        realm: &Domain,
        password: &Password,
        existing: IfExists,
    ) -> Result<(), StoreError> {
        let ha1 = password.ha1(user, realm);
        let conflict = match existing {
            IfExists::Refuse => KEEP,
            IfExists::Replace => REPLACE,
        };
        let row = params![realm.as_str(), user.as_str(), ha1.md5, ha1.sha256];
        match self.sorted(self.db.execute(&format!("{INSERT} {conflict}"), row))? {
            0 => Err(StoreError::UserExists { user: user.clone(), realm: realm.clone() }),
            _ => Ok(()),
        }
    }

    /// Removes `users` from `realm`.
    ///
    /// # Errors
    /// [`StoreError::UserUnknown`] for the first who is not there; then nobody is removed.
    pub fn remove(&mut self, users: &[UserName], realm: &Domain) -> Result<(), StoreError> {
        let change = self.begin()?;
        for user in users {
            let gone = change.execute(
                "DELETE FROM subscribers WHERE realm = ?1 AND user = ?2",
                [realm.as_str(), user.as_str()],
            );
            if gone.map_err(|error| StoreError::from_sqlite(&self.path, error))? == 0 {
                return Err(StoreError::UserUnknown { user: user.clone(), realm: realm.clone() });
            }
        }
        self.sorted(change.commit())
    }

    /// Creates the users of `range` in `realm`, each with the password that `template` gives. Users who are there already
    /// stay as they are, so that provisioning the same range at every start is harmless.
    pub fn provision(
        &mut self,
        range: &NumberRange,
        realm: &Domain,
        template: &PasswordTemplate,
    ) -> Result<Provisioned, StoreError> {
        let change = self.begin()?;
        let mut added = 0;
        {
            let mut insert = self.sorted(change.prepare(&format!("{INSERT} {KEEP}")))?;
            for user in range.users() {
                let ha1 = template.password_of(&user)?.ha1(&user, realm);
                let row = params![realm.as_str(), user.as_str(), ha1.md5, ha1.sha256];
                added += self.sorted(insert.execute(row))? as u64;
            }
        }
        self.sorted(change.commit())?;
        Ok(Provisioned { added, kept: range.count() - added })
    }

    /// The secret of the cluster that this directory belongs to, made at the first call and the same ever after.
    pub fn cluster_secret(&mut self) -> Result<ClusterSecret, StoreError> {
        let change = self.begin()?;
        let fresh = ClusterSecret::generate();
        let made = "INSERT INTO cluster (name, value) VALUES ('secret', ?1) ON CONFLICT (name) DO NOTHING";
        self.sorted(change.execute(made, [fresh.as_bytes()]))?;
        let kept = change.query_row("SELECT value FROM cluster WHERE name = 'secret'", [], |row| row.get(0));
        let bytes =
            self.sorted(kept.optional())?.ok_or_else(|| self.damaged("the cluster's secret is missing"))?;
        self.sorted(change.commit())?;
        Ok(ClusterSecret(bytes))
    }
}

impl SubscriberStore {
    /// Takes the write lock at once: a transaction that reads first and writes later could fail in the middle.
    fn begin(&self) -> Result<Transaction<'_>, StoreError> {
        self.sorted(Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate))
    }

    /// Runs a query with at most one parameter and hands each row to `visit` until it breaks.
    fn each(
        &self,
        sql: &str,
        parameter: Option<Option<&str>>,
        mut visit: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut query = self.sorted(self.db.prepare(sql))?;
        let mut rows = self.sorted(query.query(rusqlite::params_from_iter(parameter)))?;
        while let Some(row) = self.sorted(rows.next())? {
            if visit(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn key_of(&self, row: &Row<'_>) -> Result<(Domain, UserName), StoreError> {
        let (realm, user): (String, String) =
            self.sorted(row.get(0).and_then(|realm| Ok((realm, row.get(1)?))))?;
        let user =
            UserName::parse(&user).map_err(|error| self.damaged(format!("in a user name, {error}")))?;
        Ok((self.domain(&realm)?, user))
    }

    fn domain(&self, realm: &str) -> Result<Domain, StoreError> {
        Domain::parse(realm).map_err(|error| self.damaged(format!("in a realm, {error}")))
    }

    fn damaged(&self, detail: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), detail: detail.into() }
    }

    fn sorted<T>(&self, outcome: rusqlite::Result<T>) -> Result<T, StoreError> {
        outcome.map_err(|error| StoreError::from_sqlite(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, SubscriberStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = again(&dir);
        (dir, store)
    }

    /// One more connection, as another process would have it.
    fn again(dir: &tempfile::TempDir) -> SubscriberStore {
        SubscriberStore::open(&DataDir::open(dir.path()).unwrap()).unwrap()
    }

    fn user(name: &str) -> UserName {
        UserName::parse(name).unwrap()
    }

    fn realm() -> Domain {
        Domain::parse("busyhour.example").unwrap()
    }

    fn add(
        store: &mut SubscriberStore,
        name: &str,
        password: &str,
        existing: IfExists,
    ) -> Result<(), StoreError> {
        store.add(&user(name), &realm(), &Password::parse(password).unwrap(), existing)
    }

    fn names(store: &SubscriberStore) -> Vec<String> {
        let mut names = Vec::new();
        let visit = |realm, user| {
            names.push(format!("{user}@{realm}"));
            ControlFlow::Continue(())
        };
        store.for_each(None, visit).unwrap();
        names
    }

    #[test]
    fn an_added_user_is_loaded_with_both_digests() {
        let (dir, mut store) = store();
        add(&mut store, "alice", "secret", IfExists::Refuse).unwrap();
        let ha1 = Password::parse("secret").unwrap().ha1(&user("alice"), &realm());
        let expected = [Subscriber { user: user("alice"), realm: realm(), ha1 }];
        assert_eq!(store.load_all().unwrap(), expected);
        assert_eq!(again(&dir).load_all().unwrap(), expected);
    }

    #[test]
    fn no_file_contains_the_password() {
        let (dir, mut store) = store();
        add(&mut store, "alice", "correct-horse-battery", IfExists::Refuse).unwrap();
        let mut files = 0;
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(13).any(|window| window == b"correct-horse"));
            files += 1;
        }
        assert!(files >= 2, "the database and its log");
    }

    #[test]
    fn an_existing_user_is_replaced_only_on_request() {
        let (_dir, mut store) = store();
        add(&mut store, "alice", "one", IfExists::Refuse).unwrap();
        let before = store.load_all().unwrap();
        assert_eq!(
            add(&mut store, "alice", "two", IfExists::Refuse).unwrap_err().to_string(),
            "the user alice of busyhour.example exists already: add --replace to give them the new password"
        );
        assert_eq!(store.load_all().unwrap(), before);
        add(&mut store, "alice", "two", IfExists::Replace).unwrap();
        let after = store.load_all().unwrap();
        assert_eq!(after.len(), 1);
        assert_ne!(after, before);
        add(&mut store, "bob", "three", IfExists::Replace).unwrap();
        assert_eq!(store.load_all().unwrap().len(), 2);
    }

    #[test]
    fn names_differ_by_case_and_by_realm() {
        let (_dir, mut store) = store();
        add(&mut store, "alice", "x", IfExists::Refuse).unwrap();
        add(&mut store, "Alice", "x", IfExists::Refuse).unwrap();
        let other = Domain::parse("a.example").unwrap();
        store.add(&user("alice"), &other, &Password::parse("x").unwrap(), IfExists::Refuse).unwrap();
        assert_eq!(names(&store), ["alice@a.example", "Alice@busyhour.example", "alice@busyhour.example"]);
        assert_eq!(store.realms().unwrap(), [(other.clone(), 1), (realm(), 2)]);
        let mut only = 0;
        store
            .for_each(Some(&other), |_, _| {
                only += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(only, 1);
    }

    #[test]
    fn a_visit_that_breaks_sees_no_more() {
        let (_dir, mut store) = store();
        store
            .provision(&NumberRange::parse("00-99").unwrap(), &realm(), &PasswordTemplate::default())
            .unwrap();
        let mut seen = 0;
        let visit = |_, _| {
            seen += 1;
            if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        store.for_each(None, visit).unwrap();
        assert_eq!(seen, 3);
    }

    #[test]
    fn removing_is_all_or_nothing() {
        let (_dir, mut store) = store();
        for name in ["alice", "bob", "carol"] {
            add(&mut store, name, "x", IfExists::Refuse).unwrap();
        }
        assert_eq!(
            store.remove(&[user("alice"), user("dave")], &realm()).unwrap_err().to_string(),
            "there is no user dave of busyhour.example, so nothing was removed: `busyhour user list` shows who there is"
        );
        assert_eq!(names(&store).len(), 3);
        store.remove(&[user("alice"), user("carol")], &realm()).unwrap();
        assert_eq!(names(&store), ["bob@busyhour.example"]);
    }

    #[test]
    fn provisioning_keeps_who_is_there() {
        let (_dir, mut store) = store();
        add(&mut store, "0042", "own", IfExists::Refuse).unwrap();
        let own = store.load_all().unwrap();
        let range = NumberRange::parse("0000-9999").unwrap();
        let template = PasswordTemplate::default();
        let done = store.provision(&range, &realm(), &template).unwrap();
        assert_eq!(done, Provisioned { added: 9_999, kept: 1 });
        let all = store.load_all().unwrap();
        assert_eq!((all.len(), &all[42]), (10_000, &own[0]));
        let password = Password::parse("pw9999").unwrap();
        assert_eq!(all[9_999].ha1, password.ha1(&user("9999"), &realm()));
        let done = store.provision(&range, &realm(), &template).unwrap();
        assert_eq!(done, Provisioned { added: 0, kept: 10_000 });
    }

    #[test]
    fn changes_of_any_connection_are_seen_once() {
        let (dir, mut ours) = store();
        let mut token = Token::default();
        assert!(ours.changed_since(&mut token).unwrap(), "a new token has seen nothing");
        assert!(!ours.changed_since(&mut token).unwrap());
        let mut theirs = again(&dir);
        assert!(!ours.changed_since(&mut token).unwrap(), "opening changes nothing");
        add(&mut theirs, "alice", "x", IfExists::Refuse).unwrap();
        assert!(ours.changed_since(&mut token).unwrap());
        assert!(!ours.changed_since(&mut token).unwrap());
        theirs.remove(&[user("alice")], &realm()).unwrap();
        assert!(ours.changed_since(&mut token).unwrap());
        add(&mut ours, "bob", "x", IfExists::Refuse).unwrap();
        assert!(ours.changed_since(&mut token).unwrap());
        assert!(!ours.changed_since(&mut token).unwrap());
    }

    #[test]
    fn the_cluster_secret_is_made_once_per_directory() {
        let (dir, mut store) = store();
        let secret = store.cluster_secret().unwrap();
        assert_eq!(store.cluster_secret().unwrap(), secret);
        assert_eq!(again(&dir).cluster_secret().unwrap(), secret);
        let (_other_dir, mut other) = self::store();
        assert_ne!(other.cluster_secret().unwrap(), secret);
    }

    #[test]
    fn an_overwritten_page_is_damage() {
        let (dir, mut store) = store();
        store
            .provision(&NumberRange::parse("0000-0999").unwrap(), &realm(), &PasswordTemplate::default())
            .unwrap();
        let path = store.path().to_owned();
        drop(store);
        let mut bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() > 20 * 4096, "the log was written back when the last connection closed");
        bytes[2 * 4096..].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
        let message = again(&dir).load_all().unwrap_err().to_string();
        assert_eq!(
            message,
            format!(
                "the subscriber database {} is damaged (database disk image is malformed): restore it from a backup, or move it away and add the users again",
                path.display()
            )
        );
    }

    #[test]
    fn a_row_that_breaks_the_rules_is_damage() {
        let (_dir, mut store) = store();
        add(&mut store, "alice", "x", IfExists::Refuse).unwrap();
        store.db.execute("UPDATE subscribers SET user = 'al ice'", []).unwrap();
        assert!(matches!(store.load_all(), Err(StoreError::Damaged { .. })));
        assert!(
            store.db.execute("UPDATE subscribers SET ha1_md5 = x'00'", []).is_err(),
            "the schema checks lengths"
        );
    }
}
