#!/bin/sh
# Sets a field of a story, as the agent's own tools would: set.sh STORY FIELD VALUE
sed -i.before "/\"id\": \"$1\"/,/}/ s|\"$2\": .*[^,]|\"$2\": $3|" ralph/tasks.json
rm -f ralph/tasks.json.before
