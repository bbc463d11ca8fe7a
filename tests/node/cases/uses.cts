// The same types for CommonJS.
import backstop = require('backstop-sqs');

const orders: backstop.Worker = backstop.worker({ queueUrl: 'local:q', messages: ['a'], handle: (message) => message.body });
void orders.run();
