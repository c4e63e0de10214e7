import { type CallName, clientOf, type Faceted } from "./facets.ts";

/**
 * An object of workerd leaves files on the disk as soon as it is called, also if it then has nothing to keep: with a
 * key that may only read, anybody could fill the disk by asking for made-up names. (On Cloudflare an object without
 * tables leaves nothing.) So the embedded gateway looks whether an object has a file before it calls it. If not, the call
 * goes to an object that nobody can make, and which answers like every object that was not made.
 *
 * The file is there before the object's first row is. So whoever has made a bucket finds it, whatever the catalogue knows
 * by then, and D1 is not asked.
 */

/** The object that is never made. No bucket and no pipeline can have this name. */
const NOBODY = ".nobody";

/** To be called before an object makes its tables. */
export function mustNotBeNobody(name: string | undefined): void {
  if (name === NOBODY) throw new Error("a call that makes an object is missing among its makers");
}

/** The folder of the objects' files, served by the disk service. Absent: objects that were not made leave nothing. */
type Files = Fetcher | undefined;

export interface Made<Call> {
  readonly files: Files;
  /** The calls that make an object. */
  readonly makers: readonly Call[];
  /** What one of these calls fails with, given what the platform says of it. Absent: that. */
  readonly unmade?: ((error: unknown) => Promise<unknown>) | undefined;
  /** The same, of any call. */
  readonly explain?: ((error: unknown) => Promise<unknown>) | undefined;
}

/** Names of objects that are known to have a file, at most; then they are looked for anew. */
const MAX_REMEMBERED = 10_000;

/** What objects of a class do, by their names; those that were never made all answer as one. */
export function madeObjects<Api>(
  objects: DurableObjectNamespace<undefined>,
  { files, makers, unmade, explain }: Made<CallName<Api>>,
): (name: string) => Api {
  const made = new Set<string>();
  const isMade = async (name: string, disk: Fetcher): Promise<boolean> => {
    const { status } = await disk.fetch(`http://disk/${objects.idFromName(name)}.sqlite`, { method: "HEAD" });
    if (status === 404) return false;
    // What could not be looked for may not be there.
    if (status !== 200) throw new Error(`the disk service could not look for the object ${name}: ${status}`);
    if (made.size === MAX_REMEMBERED) made.clear();
    made.add(name);
    return true;
  };
  return (name) => {
    const own = objects.getByName(name);
    return clientOf<Api>({
      async call(call, args) {
        const makes = makers.some((maker) => maker === call);
        try {
          const isThere = !files || makes || made.has(name) || (await isMade(name, files));
          const object = isThere ? own : objects.getByName(NOBODY);
          return await (object as unknown as Faceted).call(call, args);
        } catch (error) {
          const told = makes && unmade ? await unmade(error) : error;
          throw explain ? await explain(told) : told;
        }
      },
    });
  };
}
