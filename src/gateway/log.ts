/** The little of a logger that the gateway needs; pino fits. */
export interface GatewayLog {
	info(fields: object, message: string): void;
	warn(fields: object, message: string): void;
	error(fields: object, message: string): void;
}

export const silent: GatewayLog = { info() {}, warn() {}, error() {} };
