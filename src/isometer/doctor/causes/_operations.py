def operation_repairs(model, forward, *, samples):
    return []
