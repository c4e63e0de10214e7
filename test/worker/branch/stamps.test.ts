import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Branch } from "../../../worker/branch/branch.ts";
import type { FileRead, ReadFile } from "../../../worker/branch/contract/files.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { readFile } from "../../../worker/branch/read/file.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { allTold, freshBranch, inline, put, startOpenCommit } from "./support.ts";

/*
 * Whoever keeps what a read answered asks with its stamp, and hears that it is unchanged. That must be what an answer in full
 * would say.
 */

afterEach(() => {
  vi.restoreAllMocks();
});

interface Asked {
  readonly ledger: Ledger;
  /** The stamp of what is there. */
  stamp(question?: Partial<ReadFile>): string;
  /** Whether a stamp is of what is there. */
  isSame(have: string, question?: Partial<ReadFile>): boolean;
  read(question?: Partial<ReadFile>): ReturnType<typeof readFile>;
}

/** Does something with a ledger over the database of a branch that has the files `a` and `b`: none of its loops runs beside. */
async function withLedger(
  work: (
    asked: Asked,
    made: { a: string; b: string; openCommit: string; another: () => Asked },
  ) => void | Promise<void>,
): Promise<void> {
  const branch = await freshBranch();
  const [a, b] = [await put(branch, "a", "1"), await put(branch, "b", "1")];
  if (a === null || b === null) throw new Error("nothing was committed");
  const openCommit = await startOpenCommit(branch);
  await runInDurableObject(branch, async (_: Branch, { storage }) => {
    const ledger = new Ledger(storage);
    const another = () => askedOf(new Ledger(storage));
    await work(askedOf(ledger), { a, b, openCommit, another });
  });
}

function askedOf(ledger: Ledger): Asked {
  const read = (question: Partial<ReadFile> = {}) => readFile(ledger, { path: "a", ...question });
  return {
    ledger,
    read,
    stamp(question) {
      const answer = read({ ...question, have: null });
      if (!answer.ok || answer.stamp === undefined) throw new Error("there is no stamp");
      return answer.stamp;
    },
    isSame(have, question) {
      const answer = read({ ...question, have });
      return answer.ok && "unchanged" in answer;
    },
  };
}

/** A commit of one write, as far as its rows go. */
function write({ ledger }: Asked, path: string, text: string | null): void {
  ledger.transaction(() => {
    const { gen, head } = live(ledger);
    const seq = head.seq + 1;
    const before = ledger.files.head(gen, path);
    if (before) ledger.files.kill(path, { gen, born: before.born, seq });
    if (text !== null) {
      const content = inline(text);
      ledger.contents.add(content, { gen, now: 0, named: 0 });
      ledger.files.bear(path, { gen, seq, state: { ...content, attributes: null } });
    }
    const id = `01KTEST00000000000000${String(seq).padStart(5, "0")}`;
    const createdAt = head.modifiedAt + 1000;
    ledger.sql.run`
      INSERT INTO commits (gen, seq, id, createdAt, kind, births, deaths)
      VALUES (${gen}, ${seq}, ${id}, ${createdAt}, 0, 0, 0)`;
    ledger.generations.advance({ ...head, seq, id, modifiedAt: createdAt }, createdAt);
  }, "paths");
}

function live(ledger: Ledger) {
  const { live } = ledger;
  if (!live) throw new Error("no generation lives");
  return live;
}

/** Where the newest state stands. */
function atNow(ledger: Ledger) {
  const { gen, head } = live(ledger);
  return { gen, seq: head.seq };
}

describe("a file of the newest state", () => {
  test("is unchanged as long as nobody wrote to its path, and the answer has the newest time", async () => {
    await withLedger((asked) => {
      const stamp = asked.stamp();
      expect(asked.isSame(stamp)).toBe(true);
      write(asked, "b", "2");
      const { modifiedAt } = live(asked.ledger).head;
      const again = asked.read({ have: stamp });
      const said = { at: atNow(asked.ledger), modifiedAt };
      expect(again).toEqual({ ok: true, unchanged: true, stamp: expect.any(String), ...said });
      expect(asked.read()).toMatchObject({ modifiedAt });
      expect(asked.isSame((again as FileRead).stamp ?? "")).toBe(true);
      write(asked, "a", "2");
      expect(asked.isSame(stamp)).toBe(false);
      expect(asked.isSame((again as FileRead).stamp ?? "")).toBe(false);
      write(asked, "a", "1");
      expect(asked.isSame(stamp)).toBe(false);
    });
  });

  test("has its own time where the time of files is asked for", async () => {
    await withLedger((asked) => {
      const stamp = asked.stamp({ modified: "file" });
      write(asked, "b", "2");
      const again = asked.read({ have: stamp, modified: "file" });
      const at = atNow(asked.ledger);
      expect(again).toEqual({ ok: true, unchanged: true, stamp: expect.any(String), at });
    });
  });

  test("is not there once it was deleted, whatever one has", async () => {
    await withLedger((asked) => {
      const stamp = asked.stamp();
      write(asked, "a", null);
      const at = atNow(asked.ledger);
      expect(asked.read({ have: stamp })).toEqual({ ok: false, reason: "no-such-file", at });
      expect(asked.read()).toEqual({ ok: false, reason: "no-such-file" });
    });
  });

  test("is told in full after it was written again as it is, and after a transaction that may have changed anything", async () => {
    await withLedger((asked) => {
      const { ledger } = asked;
      const { gen } = live(ledger);
      const stamp = asked.stamp();
      ledger.transaction(() => {}, "paths");
      expect(asked.isSame(stamp)).toBe(true);
      ledger.transaction(() => ledger.files.renew("a", { gen, now: Date.now() + 5000 }), "paths");
      expect(asked.isSame(stamp)).toBe(false);
      const later = asked.stamp();
      ledger.transaction(() => {});
      expect(asked.isSame(later)).toBe(false);
    });
  });

  test("is told in full by another instance of the object", async () => {
    await withLedger((asked, { another }) => {
      const stamp = asked.stamp();
      expect(another().stamp()).not.toBe(stamp);
      expect(another().isSame(stamp)).toBe(false);
      expect(asked.isSame(stamp)).toBe(true);
    });
  });

  test("of another life of the branch is another one", async () => {
    await withLedger((asked) => {
      const stamp = asked.stamp();
      const { counter } = asked.ledger.reads;
      vi.spyOn(asked.ledger.reads, "counter", "get").mockReturnValue(counter);
      const { gen } = live(asked.ledger);
      asked.ledger.generations.begin({ uid: "another", createdAt: Date.now() });
      expect(live(asked.ledger).gen).toBe(gen + 1);
      expect(asked.read({ have: stamp })).toMatchObject({ reason: "no-such-file", at: { gen: gen + 1 } });
      write(asked, "a", "1");
      expect(asked.isSame(stamp)).toBe(false);
    });
  });

  test("has no stamp while a large commit is applied, nor is it the same", async () => {
    await withLedger((asked) => {
      const stamp = asked.stamp();
      const applying = { openCommit: 1, id: "large", gen: 1, seq: null, isReverting: false };
      vi.spyOn(asked.ledger.applying, "get").mockReturnValue(applying);
      const answer = asked.read({ have: stamp });
      expect([answer.ok, "unchanged" in answer, "stamp" in answer]).toEqual([true, false, false]);
    });
  });

  test("has a stamp only for somebody who asks for it", async () => {
    await withLedger((asked) => {
      const answer = asked.read();
      expect([answer.ok, "stamp" in answer]).toEqual([true, false]);
    });
  });

  test("costs no statement as long as nobody wrote, and one row after that, until it was asked for again", async () => {
    await withLedger((asked) => {
      const statements = vi.spyOn(Sql.prototype, "execute");
      const cost = (have: string) => {
        statements.mockClear();
        const answer = asked.read({ have });
        if (!answer.ok || !("unchanged" in answer)) throw new Error("it is not the same");
        return { statements: statements.mock.calls.length, stamp: answer.stamp };
      };
      const stamp = asked.stamp();
      expect(cost(stamp)).toEqual({ statements: 0, stamp });
      write(asked, "b", "2");
      live(asked.ledger);
      const later = cost(stamp);
      expect(later.statements).toBe(1);
      expect(cost(later.stamp)).toEqual({ statements: 0, stamp: later.stamp });
    });
  });

  test("may be given without asking again where the branch is set so, which a change of that takes back", async () => {
    await withLedger((asked, { b }) => {
      const { ledger } = asked;
      const { gen } = live(ledger);
      const set = (nearReads: boolean) =>
        ledger.transaction(() => ledger.settings.save(gen, { ...ledger.settings.of(gen), nearReads }));
      expect(asked.read({ have: null })).not.toHaveProperty("near");
      set(true);
      expect(asked.read({ have: null })).toMatchObject({ near: true });
      const have = asked.stamp();
      expect(asked.read({ have })).toMatchObject({ unchanged: true, near: true });
      for (const other of [{}, { commit: b, have }, { openCommit: b, have }])
        expect(asked.read(other)).not.toHaveProperty("near");
      set(false);
      const after = asked.read({ have });
      expect(["unchanged" in after, "near" in after]).toEqual([false, false]);
    });
  });

  test("is refused to whoever has no key once the branch is not public, whatever they have", async () => {
    await withLedger((asked) => {
      const stamp = asked.stamp();
      expect(asked.read({ have: stamp, publicOnly: true })).toEqual({ ok: false, reason: "not-public" });
    });
  });
});

describe("a file of a commit", () => {
  test("is unchanged whatever is written, and answered for good if the question has the commit's id", async () => {
    await withLedger((asked, { b }) => {
      for (const question of [{ openCommit: b }, { commit: b }]) {
        const first = asked.read({ ...question, have: null });
        expect(first).toMatchObject({ ok: true, lasting: true });
        const stamp = asked.stamp(question);
        write(asked, "a", `${Object.keys(question)}`);
        expect(asked.read({ ...question, have: stamp })).toEqual({
          ...{ ok: true, unchanged: true, lasting: true },
          stamp: expect.any(String),
        });
        asked.ledger.transaction(() => {});
        expect(asked.isSame(stamp, question)).toBe(false);
      }
    });
  });

  test("by a tag is unchanged until the tag names another commit, and not answered for good", async () => {
    await withLedger((asked, { a, b }) => {
      const { ledger } = asked;
      const question = { openCommit: "v1" };
      let names = a;
      vi.spyOn(ledger.tags, "find").mockImplementation((_, name) => ({ name, commit: names }) as never);
      const first = asked.read({ ...question, have: null });
      expect([first.ok, "lasting" in first]).toEqual([true, false]);
      const stamp = asked.stamp(question);
      expect(asked.isSame(stamp, question)).toBe(true);
      names = b;
      expect(asked.isSame(stamp, question)).toBe(false);
    });
  });

  test("that is kept no more has no stamp, and is not the same", async () => {
    await withLedger((asked, { a }) => {
      const { ledger } = asked;
      const stamp = asked.stamp({ commit: a });
      vi.spyOn(ledger.horizons, "horizonOf").mockReturnValue(100);
      const answer = asked.read({ commit: a, have: stamp });
      expect([answer.ok, "unchanged" in answer, "stamp" in answer]).toEqual([true, false, false]);
      expect(asked.read({ openCommit: a, have: stamp })).toMatchObject({ ok: false });
    });
  });

  test("that is not there is no answer to keep", async () => {
    await withLedger((asked, { a }) => {
      expect(asked.read({ path: "b", openCommit: a, have: null })).toEqual({
        ok: false,
        reason: "no-such-file",
      });
    });
  });
});

test("a file is unchanged though the branch told others of a commit", async () => {
  const branch = await freshBranch();
  await allTold(branch);
  await put(branch, "a");
  const first = await branch.files.read({ path: "a", have: null });
  if (!first.ok || first.stamp === undefined) throw new Error("there is no stamp");
  const news = "INSERT INTO outbox (receiver, uid, event, due) VALUES ('catalogue', '', 'news', 0)";
  await runInDurableObject(branch, async (_, { storage }) => {
    storage.sql.exec(news);
    await storage.setAlarm(Date.now());
  });
  await allTold(branch);
  expect(await branch.files.read({ path: "a", have: first.stamp })).toMatchObject({ unchanged: true });
});

test("a file of an open commit has no stamp", async () => {
  await withLedger((asked, { openCommit }) => {
    const answer = asked.read({ openCommit, have: asked.stamp() });
    expect([answer.ok, "unchanged" in answer, "stamp" in answer, "lasting" in answer]).toEqual([
      ...[true, false, false, false],
    ]);
  });
});
