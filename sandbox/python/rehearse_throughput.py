import io
import numpy as np
import pandas as pd
df = pd.read_csv(io.StringIO("day,group,x,y\n" + "\n".join(f"2024-01-{1 + i % 28:02d},{'abc'[i % 3]},{i},{i % 7}.5" for i in range(300))))
print(df.head())
print(df.describe())

# %%
df.loc[3, "x"] = np.nan
print(df.groupby("group")["y"].agg(["mean", "std", "count"]))
print(df["x"].fillna(0).mean(), df[df.y > 2].shape, df[["x", "y"]].corr().round(2))
print(f"{df.y.mean():.2f}", df.isnull().sum().to_dict(), df.dtypes)
df.sort_values("y").tail(2)
