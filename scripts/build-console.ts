import { putFiles } from "../embedded/bundle/built.ts";
import { keptConsole } from "../embedded/bundle/console.ts";

/** `npm run console:build`: puts the files of the console into a folder, for wrangler, which serves them beside the Worker. */
const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("name the folder to build into");
putFiles(folder, await keptConsole());
