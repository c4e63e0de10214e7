import fc from "fast-check";
import type { Door } from "../../support/keys.ts";
import { type Fuzzed, fuzzed } from "../run-fuzz.ts";
import { apiAsk } from "./api-asks.ts";
import { playApi } from "./api-story.ts";
import { ArchiveStories, change } from "./archive-story.ts";
import { openGround } from "./ground.ts";
import { KEPT_API, KEPT_S3 } from "./kept.ts";
import { s3Ask } from "./s3-asks.ts";
import { playS3 } from "./s3-story.ts";

/** What is tried at a gateway. A story has its requests in a row, since what one finds is what those before it left. */
export async function gatewayFuzz(door: Door): Promise<{ s3: Fuzzed; api: Fuzzed; archives: Fuzzed }> {
  const ground = await openGround(door);
  const archives = await ArchiveStories.open(ground);
  return {
    s3: fuzzed("requests to S3's door", {
      grammar: story(s3Ask),
      kept: KEPT_S3,
      holds: (asks, tally) => playS3(ground, asks, tally),
    }),
    api: fuzzed("requests to the control API", {
      grammar: story(apiAsk),
      kept: KEPT_API,
      holds: (asks, tally) => playApi(ground, asks, tally),
    }),
    archives: fuzzed("archives of repos", {
      grammar: change,
      holds: (made, tally) => archives.play(made, tally),
    }),
  };
}

function story<T>(ask: fc.Arbitrary<T>): fc.Arbitrary<T[]> {
  return fc.array(ask, { minLength: 10, maxLength: 30, size: "max" });
}
