"""Connections to Postgres: what one of them believes after an error is no trouble of the next."""

import psycopg
import psycopg_pool
import pytest

from loopwright.store.postgres.pool import Pool

pytestmark = pytest.mark.postgres


def test_a_refused_transaction_leaves_no_statement_that_the_server_does_not_know(postgres_url):
    pool = Pool(psycopg, psycopg_pool, postgres_url, 1)
    pool.open()

    def paid(*amounts):
        with pool.begin_transaction(("SELECT 1", [])) as execute:
            execute("INSERT INTO paid VALUES (?)", amounts[:1])
            execute("INSERT INTO paid VALUES (? + 100)", amounts[1:])

    try:
        pool.run(lambda connection: connection.execute("CREATE TABLE paid (amount INT UNIQUE)"))
        paid(1, 1)
        paid(2, 2)  # the third time a statement is prepared, and the server skips the second one
        with pytest.raises(psycopg.errors.UniqueViolation):
            paid(1, 3)
        paid(4, 4)
        found = pool.run(lambda connection: connection.execute("SELECT * FROM paid").fetchall())
    finally:
        pool.close()

    assert sorted(row["amount"] for row in found) == [1, 2, 4, 101, 102, 104]
