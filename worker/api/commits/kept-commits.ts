import type { BranchAddress } from "../../../protocol/names.ts";
import type { Context } from "../../app.ts";

/** A commit that a job read or made; null: there was none. */
interface JobCommit extends BranchAddress {
  readonly commit: string | null;
  readonly kept?: false | undefined;
}

/**
 * What a job read or made, with a word on each commit that its branch keeps no more: its files are gone. Of a branch that
 * can't be asked, nothing is said.
 */
export async function withKept<Place extends JobCommit>(
  { branch }: Pick<Context, "branch">,
  places: readonly Place[],
): Promise<Place[]> {
  return await Promise.all(
    places.map(async (place) => {
      if (place.commit === null) return place;
      const answer = await branch(place)
        .feed.kept({ commits: [place.commit] })
        .catch(() => undefined);
      return answer?.kept.length === 0 ? { ...place, kept: false as const } : place;
    }),
  );
}
