import { isSame } from "../../../../simulator/history/states.ts";
import { objectTarget } from "../../../../support/s3.ts";
import { saidOf, unexpected, wrote } from "../client.ts";
import { ERASED_FOLDER } from "../life.ts";
import type { Erasing, Load, Work } from "../load.ts";

/**
 * Files that go for good, in forks too. Their names, and the bytes of most, are `secret`, which then is nowhere; others have bytes
 * that clients write elsewhere at the same time.
 */
export function erasures(secret: string): Work {
  let number = 0;
  return async (load) => {
    if (load.erasing.length === 0) {
      const life = load.branch();
      if (!life.admits()) return;
      const erasing = { life, key: `${ERASED_FOLDER}${secret}-${number++}` };
      load.erasing.push(erasing);
      await putErased(load, erasing, someBytes(load, `${secret} ${number} `));
      if (load.random() < 0.3) await putErased(load, erasing, someBytes(load, `${secret} ${number} again `));
      // It may be in forks by then.
      if (load.random() < 0.6) return;
    }
    await eraseAll(load);
  };
}

/** In a row or in a blob, or what others write. */
function someBytes(load: Load, text: string): Buffer {
  if (load.random() < 0.5) return load.shared().bytes;
  return Buffer.from(text.repeat(load.random() < 0.5 ? 10 : 200));
}

async function putErased(load: Load, { life, key }: Erasing, body: Buffer): Promise<void> {
  const { history, client } = load;
  const id = history.id();
  await history.ask(
    life,
    {
      ...{ id, kind: "put to be erased", text: `put ${id} of what is erased` },
      leads: ({ before, after }) => isSame(after.tree, before.tree),
    },
    {
      call: () => client.s3("PUT", objectTarget(life.bucket, key), { headers: saidOf(id), body }),
      told: (answer) => wrote(answer),
    },
  );
}

/** Erases all names that wait for it, each until it has no version: a revert that was under way may have made another one. */
export async function eraseAll(load: Load): Promise<void> {
  const { erasing, erased } = load;
  for (let next = erasing[0]; next !== undefined; next = erasing[0]) {
    while (await eraseOnce(load, next));
    erasing.shift();
    erased.push(next);
  }
}

/** Erases the versions that a name has. Returns false if it has none. */
async function eraseOnce({ client, history }: Load, { life, key }: Erasing): Promise<boolean> {
  const id = history.id();
  history.erasures.add(id);
  life.admits();
  const asked = { path: key, allVersions: true, forks: true, message: id };
  const answer = await client.until(() => client.control("POST", `${life.path}/erasures`, asked));
  if (answer.status !== 200 && answer.status !== 404) throw unexpected(answer);
  history.count(answer.status === 200 ? "erasure answered" : "erasure of nothing answered");
  return answer.status === 200;
}

/** Erased names that a branch still lists as versions. */
export async function erasedLeft({ client, history, erased }: Load): Promise<string[]> {
  const gone = new Set(erased.map(({ key }) => key));
  const left: string[] = [];
  for (const { bucket } of history.lives.values()) {
    const answer = await client.until(() => client.s3("GET", `/${bucket}?versions&prefix=${ERASED_FOLDER}`));
    const keys = [...answer.text.matchAll(/<Key>([^<]+)</g)].map(([, key = ""]) => key);
    left.push(
      ...keys.filter((key) => gone.has(key)).map((key) => `${bucket}: ${key} was erased and is there`),
    );
  }
  return left;
}
