/** Writes the reference where the repository keeps it. */
import { writeReference } from "./reference.ts";

Deno.writeTextFileSync("rfcs/configuration.md", writeReference());
