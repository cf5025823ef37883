//! The file's schema and the way from every past one to the present.
//!
//! `schema/v1.sql` and what follows it say what each table holds. A change of the schema, or of how
//! [`analyze`](crate::analyze) makes tokens, is a new step here: `PRAGMA user_version` counts
//! the steps that a file has been through.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::Fault;

/// Tells our files from those of other programs (`PRAGMA application_id`): "pkmn".
pub(crate) const APPLICATION_ID: i64 = 0x706b_6d6e;

/// The steps, in order; the first makes schema 1 from nothing.
const STEPS: &[&str] = &[include_str!("schema/v1.sql"), include_str!("schema/v2.sql")];

/// The schema that this program reads and writes.
pub const VERSION: i64 = STEPS.len() as i64;

/// The schema of the file; 0 for an empty one.
pub(crate) fn version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings the file to [`VERSION`]. The steps run in one transaction, and the file's schema is
/// read inside it: when several processes open a file at once, one migrates and the others
/// find it done.
pub(crate) fn migrate(conn: &mut Connection) -> Result<(), Fault> {
    migrate_through(conn, STEPS)
}

fn migrate_through(conn: &mut Connection, steps: &[&str]) -> Result<(), Fault> {
    if version(conn)? == steps.len() as i64 {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = usize::try_from(version(&tx)?).unwrap_or(0);
    for step in steps.iter().skip(from) {
        tx.execute_batch(step)?;
    }
    if from < steps.len() {
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", steps.len() as i64)?;
    }
    tx.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(steps_before: &[&str], steps: &[&str], want: &str) {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate_through(&mut conn, steps_before).unwrap();
        migrate_through(&mut conn, steps).unwrap();
        assert_eq!(version(&conn).unwrap(), steps.len() as i64);
        let got: String = conn
            .query_row("SELECT group_concat(x) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(got, want);
    }

    #[test]
    fn only_the_steps_that_are_missing_run() {
        let one = "CREATE TABLE t (x); INSERT INTO t VALUES (1);";
        let two = "INSERT INTO t VALUES (2);";
        let three = "INSERT INTO t VALUES (3);";
        check(&[], &[one, two, three], "1,2,3");
        check(&[one], &[one, two, three], "1,2,3");
        check(&[one, two, three], &[one, two, three], "1,2,3");
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut conn = Connection::open_in_memory().unwrap();
        let one = "CREATE TABLE t (x); INSERT INTO t VALUES (1);";
        migrate_through(&mut conn, &[one]).unwrap();
        let broken = "INSERT INTO t VALUES (2); INSERT INTO nowhere VALUES (3);";
        assert!(migrate_through(&mut conn, &[one, broken]).is_err());
        assert_eq!(version(&conn).unwrap(), 1);
        let n: i64 = conn
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(n, 1);
    }
}
