/** The one version of this broker; a release whose tag says otherwise is refused. */
export const VERSION = "0.1.0-rc.1";

/** The revision it was built from; the release build writes it here. */
export const REVISION = "dev";
