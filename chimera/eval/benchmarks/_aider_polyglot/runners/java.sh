# Runs the tests of an exercise with javac and the JUnit console; a report goes to $SCRATCH.
# What is tested sees no test library, as with Gradle, and has no class instead of one of theirs.
used=$(find "$JARS" -name '*.jar' ! -name 'junit-*' ! -name 'assertj-*' ! -name 'byte-buddy-*')
compile() {
    find "src/$1" -name '*.java' > "$SCRATCH/sources"
    javac -encoding UTF-8 -implicit:none -d "$SCRATCH/classes" -cp "$2" @"$SCRATCH/sources" || exit 1
}
compile main "$(echo $used | tr ' ' :)"
compile test "$JARS/*:$SCRATCH/classes"
exec java -jar "$JARS"/junit-platform-console-standalone-*.jar \
    --class-path "$(echo "$JARS"/*.jar | tr ' ' :):$SCRATCH/classes" --scan-class-path \
    --fail-if-no-tests --disable-banner --disable-ansi-colors --details=tree \
    --reports-dir "$SCRATCH/reports"
