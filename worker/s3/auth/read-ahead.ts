import type { Caller, Context } from "../../app.ts";
import type { ByteRange } from "../../blobs/port.ts";
import type { RequestEvent } from "../../request-log.ts";
import type { BucketTree } from "../bucket-tree.ts";

/**
 * A read that begins while the key of its sender is looked up, so that a branch that is far away and D1 are asked at the same time.
 * Nobody knows yet who the sender is. So the branch is asked and no more: what it answers is held back, and the read goes on with
 * it, opens bytes and is answered, once it is known that the sender may have it. Otherwise it is thrown away unseen: nothing of it
 * is kept near the reader, and the log does not tell of it.
 */
export interface ReadAhead {
  /** The answer: the sender may have it. Undefined: the request is for no such read. */
  take(): Promise<Response | undefined>;
  /** Throws away what was not taken. */
  drop(): void;
}

/** Somebody with a key, who may see nothing. */
export function presumed(keyId: string): Caller {
  return { keyId, scope: { level: "read", repos: [] }, payload: { form: "plain", sha256: null } };
}

/** Begins one. `read`: does it in a context of its own, with trees whose answers are held back. */
export function readAhead(
  context: Context,
  read: (own: Context, heldBack: (tree: BucketTree) => BucketTree) => Promise<Response | undefined>,
): ReadAhead {
  const event: RequestEvent = {};
  const { promise: admitted, resolve: admit, reject: refuse } = Promise.withResolvers<void>();
  admitted.catch(() => {});
  const answering = read({ ...waiting(context, admitted), event }, (tree) => heldBack(tree, admitted));
  // Whoever takes it hears why it failed.
  answering.catch(() => {});
  let isTaken = false;
  return {
    async take() {
      isTaken = true;
      admit();
      try {
        return await answering;
      } finally {
        Object.assign(context.event, event);
      }
    },
    drop() {
      if (isTaken) return;
      refuse(new Error("the read was thrown away"));
      answering.then((answer) => answer?.body?.cancel()).catch(() => {});
    },
  };
}

/** The tree, whose branch is asked at once and heard once its answer may be seen. */
function heldBack(tree: BucketTree, admitted: Promise<void>): BucketTree {
  const later = async <Answer>(asked: Promise<Answer>): Promise<Answer> => {
    const [answer] = await Promise.all([asked, admitted]);
    return answer;
  };
  return {
    ...tree,
    read: (request) => later(tree.read(request)),
    readAgain: (request) => later(tree.readAgain(request)),
  };
}

interface Blobs {
  get(name: string, range: ByteRange): Promise<unknown>;
}

/** The context, whose stores are read once the answer may be seen. What is kept near the reader is of that time, too: it may be too old then. */
function waiting({ blobs, blobCache, nearFiles, ...context }: Context, admitted: Promise<void>): Context {
  const after = <Store extends Blobs>(store: Store): Store =>
    over(store, {
      async get(name: string, range: ByteRange) {
        await admitted;
        return await store.get(name, range);
      },
    });
  return {
    ...context,
    blobs: after(blobs),
    blobCache: blobCache && after(blobCache),
    nearFiles:
      nearFiles &&
      over(nearFiles, {
        last: (of: Parameters<typeof nearFiles.last>[0]) => nearFiles.last(of),
        async read(...asked: Parameters<typeof nearFiles.read>) {
          const found = await nearFiles.read(...asked);
          await admitted;
          return found.by === "cache" ? await nearFiles.read(...asked) : found;
        },
      }),
  };
}

/** An object that does some things in its own way. */
function over<Of extends object>(object: Of, methods: object): Of {
  return Object.assign(Object.create(object), methods);
}
