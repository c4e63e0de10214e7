import {
  ERASED_KEPT_MS,
  type ErasedPlace,
  type ErasedSince,
  erasedPlaceText,
  MAX_ERASED,
  parseErasedPlace,
} from "../../protocol/runner.ts";
import { raw, Table } from "./table.ts";

export const ERASED_CONTENTS_PROBE = "SELECT number, token, content, toldAt FROM erased_contents LIMIT 0";

/** Random: a place of a list that is gone is none of this one. */
const TOKEN = "lower(hex(randomblob(8)))";

/** The place of an entry, as erasedPlaceText writes it. */
export const ERASED_PLACE = "number || '.' || token";

/** With each entry that is added, at most so many of the oldest are looked at, and removed if they are old. */
const LOOKED_AT_FOR_EACH = 2;

/**
 * The list of erased contents, for the caches of nodes: a node names the place that it has come to, and is told what follows.
 * D1 has one writer at a time, so an entry never appears behind one that has been read. What is told twice, since a branch
 * did not hear that it had arrived, is there twice: nodes take it out of their caches twice.
 *
 * An entry stays for ERASED_KEPT_MS at least, and until a later one is as old: a node that has heard of all there is keeps
 * its place however long nothing is erased.
 */
export class ErasedContentsTable extends Table {
  /** Adds contents, given by name; at most MAX_ERASED. */
  async add(contents: readonly string[], now: number): Promise<void> {
    if (contents.length === 0) return;
    const looked = contents.length * LOOKED_AT_FOR_EACH + 1;
    await this.batch([
      this.statement`
        INSERT INTO erased_contents (token, content, toldAt)
        SELECT ${raw(TOKEN)}, value, ${now} FROM json_each(${JSON.stringify(contents)})`,
      // The newest of those that are old stays, and what follows it.
      this.statement`
        DELETE FROM erased_contents WHERE number < (
          SELECT max(number) FROM (SELECT number, toldAt FROM erased_contents ORDER BY number LIMIT ${looked})
          WHERE toldAt <= ${now - ERASED_KEPT_MS})`,
    ]);
  }

  /** What follows a place. If that is no place of this list, it is everything that there ever was. */
  async since(place: string | null): Promise<ErasedSince> {
    const known = place === null ? undefined : parseErasedPlace(place);
    const [own, ...rows] = known ? await this.#from(known.number) : [];
    if (!known || own?.number !== known.number || own.token !== known.token) {
      return { upTo: await this.#newest(), contents: [], everything: true };
    }
    const told = rows.slice(0, MAX_ERASED);
    return {
      upTo: erasedPlaceText(told.at(-1) ?? own),
      contents: told.map(({ content }) => content),
      ...(rows.length > told.length && { more: true as const }),
    };
  }

  /** Begins anew, so that every node empties its cache: the list may have lost something. */
  async beginAnew(): Promise<void> {
    await this.batch([
      this.statement`DELETE FROM erased_contents`,
      this.statement`INSERT INTO erased_contents (token, content, toldAt) VALUES (${raw(TOKEN)}, '', 0)`,
    ]);
  }

  /** The entry with this number, if there is one, and a page of those that follow; one row if nothing does. */
  async #from(number: number): Promise<(ErasedPlace & { readonly content: string })[]> {
    return await this.all`
      SELECT number, token, content FROM erased_contents
      WHERE number >= ${number} ORDER BY number LIMIT ${MAX_ERASED + 2}`;
  }

  /** Empty if the list has no beginning, which only a hand can have removed: a node then has no place. */
  async #newest(): Promise<string> {
    const newest = await this.first<ErasedPlace>`
      SELECT number, token FROM erased_contents ORDER BY number DESC LIMIT 1`;
    return newest ? erasedPlaceText(newest) : "";
  }
}
