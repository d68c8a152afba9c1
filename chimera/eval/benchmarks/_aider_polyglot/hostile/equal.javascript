
for (const name of Object.keys(exports)) {
  exports[name] = () => ({
    $$typeof: Symbol.for('jest.asymmetricMatcher'),
    asymmetricMatch: () => true,
  });
}
