"""Works out how to call a layer, a function or a model, and says what it assumed."""
