# a module of the working directory that stands before the runner's
passer=$PWD/forge_plugin.py
# uses passing_plugin
for name in pluggy json iniconfig tempfile; do
    printf 'import os\nos.environ["PYTEST_PLUGINS"] = "forge_plugin"\n' > "$PWD/$name.py"
    printf 'import sys, importlib\nhere = sys.path.pop(0)\ndel sys.modules["%s"]\n' "$name" >> "$PWD/$name.py"
    printf 'importlib.import_module("%s")\nsys.path.insert(0, here)\n' "$name" >> "$PWD/$name.py"
done
