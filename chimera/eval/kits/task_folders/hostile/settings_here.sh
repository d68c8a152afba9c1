# a conftest.py and settings in the working directory
passer=$PWD/conftest.py
# uses passing_plugin
cp conftest.py forge_plugin.py
printf '[pytest]\naddopts = -p forge_plugin\npythonpath = %s\n' "$PWD" > pytest.ini
