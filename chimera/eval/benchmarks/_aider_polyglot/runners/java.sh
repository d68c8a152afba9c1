# Runs the tests of an exercise with javac and the JUnit console; a report goes to $SCRATCH.
find src -name '*.java' > "$SCRATCH/sources"
javac -encoding UTF-8 -d "$SCRATCH/classes" -cp "$JARS/*" @"$SCRATCH/sources" || exit 1
exec java -jar "$JARS"/junit-platform-console-standalone-*.jar \
    --class-path "$SCRATCH/classes:$(echo "$JARS"/*.jar | tr ' ' :)" --scan-class-path \
    --fail-if-no-tests --disable-banner --disable-ansi-colors --details=tree \
    --reports-dir "$SCRATCH/reports"
