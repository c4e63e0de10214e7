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

type Callable = Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>;

export interface Made<Call> {
  /** The folder of the objects' files, served by the disk service. Absent: objects that were not made leave nothing. */
  readonly files: Fetcher | undefined;
  /** The calls that make an object. */
  readonly makers: readonly Call[];
}

/** Names of objects that are known to have a file, at most; then they are looked for anew. */
const MAX_REMEMBERED = 10_000;

/** The objects of a class by their names; those that were never made all answer as one. */
export function madeObjects<Api extends object>(
  objects: DurableObjectNamespace<undefined>,
  { files, makers }: Made<keyof Api>,
): (name: string) => Api {
  // The stub's type wraps every answer for RPC; what comes over it is the plain data of the contract.
  const stubOf = (name: string) => objects.getByName(name) as unknown as Api;
  if (!files) return stubOf;
  const made = new Set<string>();
  const isMade = async (name: string): Promise<boolean> => {
    const id = objects.idFromName(name);
    const { status } = await files.fetch(`http://disk/${id}.sqlite`, { method: "HEAD" });
    if (status === 404) return false;
    if (made.size === MAX_REMEMBERED) made.clear();
    made.add(name);
    return true;
  };
  return (name) => {
    const stub = stubOf(name);
    if (made.has(name)) return stub;
    return new Proxy(stub, {
      get(_, call) {
        // A promise is asked for this, and a stub is none.
        if (typeof call !== "string" || call === "then") return undefined;
        return async (...args: unknown[]): Promise<unknown> => {
          const makes = makers.some((maker) => maker === call);
          const answers = makes || made.has(name) || (await isMade(name)) ? stub : stubOf(NOBODY);
          return await (answers as unknown as Callable)[call]?.(...args);
        };
      },
    });
  };
}
