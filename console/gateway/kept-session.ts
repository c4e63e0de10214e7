import type { Signer } from "./signer.ts";

/*
 * The session that this browser keeps: one for the origin, in IndexedDB, with its key as WebCrypto has it. It is there for each tab, after
 * a reload and after a start of the browser. What is in a bucket has no part in it: its pages are of an origin of their own.
 */

const DATABASE = "sluice";
const STORE = "session";
/** There is one, under this name. */
const NAME = "kept";

/** Throws if this browser keeps nothing, as in some private windows. */
export async function keepSession(session: Signer): Promise<void> {
  await inStore("readwrite", (store) => store.put(session, NAME));
}

/** The session that is kept, if it is not over; undefined also if this browser keeps nothing. */
export async function keptSession(): Promise<Signer | undefined> {
  const kept = await inStore<Signer | undefined>("readonly", (store) => store.get(NAME)).catch(
    () => undefined,
  );
  return kept?.endsAt !== undefined && kept.endsAt > Date.now() ? kept : undefined;
}

/** Forgets a session; another one that is kept by now stays. */
export async function forgetSession({ id }: Signer): Promise<void> {
  await inStore<Signer | undefined>("readwrite", (store) => {
    const asked = store.get(NAME);
    asked.addEventListener("success", () => {
      if (asked.result?.id === id) store.delete(NAME);
    });
    return asked;
  }).catch(() => undefined);
}

/** What a request in a transaction of its own answers, once the transaction is through. */
async function inStore<T>(mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest): Promise<T> {
  const database = await open();
  try {
    return await new Promise<T>((resolve, reject) => {
      const transaction = database.transaction(STORE, mode);
      const asked = ask(transaction.objectStore(STORE));
      transaction.addEventListener("complete", () => resolve(asked.result));
      transaction.addEventListener("abort", () => reject(transaction.error));
    });
  } finally {
    database.close();
  }
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    // biome-ignore lint/style/noRestrictedGlobals: this is the one place that keeps something: a session, whose key can't be read.
    const asked = indexedDB.open(DATABASE, 1);
    asked.addEventListener("upgradeneeded", () => asked.result.createObjectStore(STORE));
    asked.addEventListener("success", () => resolve(asked.result));
    asked.addEventListener("error", () => reject(asked.error));
  });
}
