import { Reason, type ReasonCode } from "../broker/reason.ts";
import { ReturnCode } from "./codec/fault.ts";

/** The MQTT 3.1.1 return code nearest to a refused CONNECT's reason (02a sections 10 and 20). */
export function returnCode(code: ReasonCode): number {
  switch (code) {
    case Reason.UnsupportedProtocolVersion:
      return ReturnCode.UnacceptableProtocolVersion;
    case Reason.ClientIdentifierNotValid:
      return ReturnCode.IdentifierRejected;
    case Reason.ImplementationSpecificError:
    case Reason.ServerUnavailable:
    case Reason.ServerBusy:
      return ReturnCode.ServerUnavailable;
    case Reason.BadUserNameOrPassword:
      return ReturnCode.BadUserNameOrPassword;
    default:
      return ReturnCode.NotAuthorized;
  }
}
