import { conformance } from "./suite.ts";
import { memory } from "./memory_subject.ts";

conformance(memory);
