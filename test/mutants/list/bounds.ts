import { type Invariant, inWorker } from "../mutant.ts";

/** Memory per request is bounded by a constant. */
export const MEMORY: Invariant = {
  id: "9",
  mutants: [
    {
      name: "Whoever holds a part of the budget overtakes those who wait",
      file: "worker/blobs/budget.ts",
      text: "if (this.contended || bytes > this.#free) return false;",
      replacement: "if (bytes > this.#free) return false;",
      tests: [inWorker("blobs/budget")],
    },
    {
      name: "An upload that fails never gives back what it was filling",
      file: "worker/blobs/chunk-flow.ts",
      text: "    this.#options.budget.give(this.#filling);\n",
      replacement: "",
      tests: [inWorker("blobs/budget"), inWorker("blobs/write-content")],
    },
    {
      name: "A chunk that has arrived is never given back to the budget",
      file: "worker/blobs/chunk-flow.ts",
      text: "      budget.give(bytes);\n",
      replacement: "      void bytes;\n",
      tests: [inWorker("blobs/budget")],
    },
    {
      name: "A chunk that waits to be flushed with others counts as flushed",
      file: "worker/blobs/chunk-flow.ts",
      text: "    return this.#waiting.done;\n",
      replacement: "    return Promise.resolve();\n",
      tests: [inWorker("blobs/budget")],
    },
    {
      name: "Chunks are opened before their turn however short memory is",
      file: "worker/blobs/read/read-content.ts",
      text: "if (held > 0 && !(this.#budget.isAmple(held) && this.#budget.tryTake(held))) return;",
      replacement: "if (held > 0 && !this.#budget.tryTake(held)) return;",
      tests: [inWorker("blobs/read-content")],
    },
    {
      name: "A reader that leaves keeps what was opened for it",
      file: "worker/blobs/read/read-content.ts",
      text: "        await (await stream).cancel();\n",
      replacement: "        await stream;\n",
      tests: [inWorker("blobs/read-content")],
    },
    {
      name: "A reader that leaves never gives back what it took of the budget",
      file: "worker/blobs/read/read-content.ts",
      text: "        this.#budget.give(held);\n",
      replacement: "        void held;\n",
      tests: [inWorker("blobs/read-content")],
    },
    {
      name: "The first of the line is served though what is free is not enough",
      file: "worker/blobs/budget.ts",
      text: "if (!first || first.bytes > this.#free) return;",
      replacement: "if (!first || this.#free <= 0) return;",
      tests: [inWorker("blobs/budget")],
    },
    {
      name: "A text of an S3 request may be longer than its operation takes, if it does not say how long it is",
      file: "worker/s3/body/read-body.ts",
      text: "  if (bytes.length > maxBytes) throw tooLarge(maxBytes);\n",
      replacement: "",
      tests: [inWorker("s3/body/read-body"), inWorker("bounded-bodies")],
    },
  ],
};

/** A gateway answers whatever work its objects have left. */
export const ANSWERS: Invariant = {
  id: "14",
  mutants: [
    {
      name: "A loop that goes on lets nobody in between its steps",
      file: "worker/objects/loop.ts",
      text: "if (goesOn || (this.#again && steps % STEPS_PER_TURN === 0)) await yieldToOthers();",
      replacement: "if (this.#again && steps % (1000 * STEPS_PER_TURN) === 0) await yieldToOthers();",
      tests: [inWorker("objects/loop")],
    },
    {
      name: "A receiver that hangs holds up all others",
      file: "worker/objects/outbox.ts",
      text: "await Promise.race([...this.#sending.values(), this.#look.promise]);",
      replacement: "await Promise.all(this.#sending.values());",
      tests: [inWorker("objects/outbox", "hangs")],
    },
    {
      name: "An alarm waits for work that takes as long as it likes",
      file: "worker/objects/engine.ts",
      text: "await within(ALARM_MS, this.resume());",
      replacement: "await within(60 * ALARM_MS, this.resume());",
      tests: [inWorker("objects/loop"), inWorker("objects/outbox", "hangs")],
    },
  ],
};

/** While its disk is full, an embedded gateway takes no new files, and still deletes. */
export const DISK: Invariant = {
  id: "14a",
  mutants: [
    {
      name: "A crowd between two looks at the disk writes it full",
      file: "worker/disk-room.ts",
      text: "    this.#admittedBytes += bytes;\n",
      replacement: "    void bytes;\n",
      tests: [inWorker("disk-room")],
    },
    {
      name: "Small files are taken while the disk is full",
      file: "worker/blobs/write-content.ts",
      text: "      await this.#options.store.admit?.(INLINE_LIMIT_BYTES);\n",
      replacement: "",
      tests: [inWorker("ready", "full disk")],
    },
    {
      name: "Files of bytes that are there already are taken while the disk is full",
      file: "worker/api/uploads.ts",
      text: "  await asked.context.blobs.admit?.();\n  const { branch, upload } = uploadOf(asked);\n  const { contents } = await readJson(asked, ReserveContents);",
      replacement:
        "  const { branch, upload } = uploadOf(asked);\n  const { contents } = await readJson(asked, ReserveContents);",
      tests: [inWorker("ready", "full disk")],
    },
  ],
};

/** An object that has nothing to do rests: it has no alarm. */
export const RESTS: Invariant = {
  id: "15",
  mutants: [
    {
      name: "An alarm that an earlier instance set stands though nothing waits",
      file: "worker/objects/alarm.ts",
      text: "      this.#options.unset();\n",
      replacement: "",
      tests: [inWorker("branch/expiry"), inWorker("rest")],
    },
    {
      name: "A loop that is due and can't go on is tried again at once, for ever",
      file: "worker/objects/loop.ts",
      text: "      if (due <= now() && this.#retryAt === 0) this.#retryAt = now() + WATCH_MS;\n",
      replacement: "",
      tests: [inWorker("objects/loop")],
    },
    {
      name: "A fork that never gives back is asked every two hours for ever",
      file: "worker/branch/contents/fork-hold-store.ts",
      text: "UPDATE fork_hold_asks SET wait = min(2 * wait, ${LONGEST_ASK_MS}),",
      replacement: "UPDATE fork_hold_asks SET wait = min(wait, ${LONGEST_ASK_MS}),",
      tests: [inWorker("branch/on-loan", "holds of forks")],
    },
  ],
};
